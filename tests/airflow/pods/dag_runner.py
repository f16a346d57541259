"""Airflow in a process of its own, started by `AirflowProcess` alone: runs DAGs with `dag.test()`, one after another, as it is told.

A line of standard input is a request, a line of the descriptor that the first argument names is its answer. Everything that Airflow
says goes to standard output and standard error.
"""

import json
import os
import sys
import traceback
from typing import Any

from tests.airflow.airflow_stand_ins import dag_bag


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one DAG of the DAG folder to its end; give the run's id and state."""
    bag = dag_bag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if bag.import_errors:
        return {"error": str(bag.import_errors)}
    finished = bag.dags[request["dag_id"]].test()
    return {"run_id": finished.run_id, "state": str(finished.state)}


def main() -> None:
    answers = int(sys.argv[1])
    os.set_inheritable(answers, False)
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception:  # noqa: BLE001  a process boundary
            answer = {"error": traceback.format_exc()}
        sys.stdout.flush()
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
