"""What Airflow renders of a task: the provider's own templates in `env_vars`, and nothing else.

Whatever else an environment holds reaches the run as the text that was compiled, also in a DAG that renders templates as
native objects, which would turn "1" into a number and JSON into a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_dpone.task_env import render_env
from dpone_contract.environment import EnvVar
from dpone_contract.mapping_item import parse_item


class LiteralEnvironment:
    """Stands before Airflow's operator in the bases of an operator that has `env_vars`, a text by its name.

    `item_labels` names the items of a mapped task in their order.
    """

    dag: Any
    env_vars: Any
    item_labels: Sequence[str] = ()

    def render_template(self, content: Any, context: Mapping[str, Any], *_: Any, **__: Any) -> Any:
        """Give the environment of one task instance; called by Airflow in place of its own rendering."""
        return render_env(content, context)

    @property
    def dpone_label(self) -> str:
        """The label of this task's item, for `map_index_template`; a task that is not mapped has none."""
        item = self.env_vars.get(EnvVar.MAPPING_ITEM)
        if item is None:
            return ""
        label = self.item_labels[parse_item(item).item_index]
        # Airflow renders this in the DAG's own way; as a native object a number would fail the task that it names.
        native = self.dag is not None and self.dag.render_template_as_native_obj
        return f"{label} .. {label}" if native and label.lstrip("-").isdecimal() else label
