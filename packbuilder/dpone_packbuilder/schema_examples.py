"""Examples that stand in the JSON Schemas: of single keys, which editors show, and of whole documents.

Hashes are made up, so that a schema does not change with what is hashed.
"""

from __future__ import annotations

from typing import Any

_FIRST, _SECOND, _THIRD = (f"sha256:{digit * 64}" for digit in "123")

FIELD_EXAMPLES: dict[str, dict[str, Any]] = {
    "Manifest": {"name": "orders_history", "description": "Orders since 2024"},
    "SourceOptions": {
        "connection_ref": "source_db",
        "connection_id": "source_db",
        "columns": ["order_id", "order_date"],
        "exclude_columns": ["note"],
        "where": "region = 'EU'",
    },
    "SinkOptions": {"connection_ref": "target_db", "connection_id": "target_db", "options": {}},
    "TableName": {"schema": "public", "name": "orders"},
    "XminExecutionOptions": {"handoff_id": "orders_v1"},
    "StrategyOptions": {"unique_key": ["order_date", "order_id"], "version_column": "updated_at"},
    "BackfillOptions": {
        "backfill_id": "orders_2024",
        "parallel_workers": 1,
        "lease_ttl_minutes": 60,
        "max_chunks": 1000,
        "stop_after_failures": 3,
        "state_dir": ".dpone/backfill",
    },
    "BackfillStateOptions": {"schema": "dpone_audit", "connection_ref": "target_db"},
    "ChunkOptions": {
        "column": "order_date",
        "from": "2024-01-01",
        "to": "2024-03-31",
        "step": "1d",
        "timezone": "Europe/Berlin",
        "boundaries": ["2024-01-01", "2024-02-15", "2024-04-01"],
        "buckets": 64,
    },
    "StateOptions": {"connection_ref": "state_db"},
    "GitopsOptions": {"airflow_xcom_summary": {}},
    "MappingOptions": {"mode": "summary", "max_items": 40, "max_active": 8, "pool": "dpone_backfill"},
    "WorkloadOptions": {"manifest": "orders_history.yaml"},
    "ExecutionOptions": {
        "dag_id": "orders_history",
        "description": "Orders since 2024",
        "schedule": "0 3 * * *",
        "start_date": "2024-01-01",
        "retries": 3,
        "retry_delay_seconds": 60,
        "max_active_runs": 1,
        "tags": ["dpone"],
        "owner": "data",
        "execution_timeout_seconds": 86_400,
        "outlets": ["postgres://warehouse/analytics/orders"],
    },
    "HookOptions": {
        "pre": [{"name": "announce", "command": ["python", "-m", "announce"]}],
        "post": [{"name": "refresh", "command": ["python", "-m", "refresh", "orders"]}],
    },
    "Hook": {"name": "announce", "command": ["python", "-m", "announce"]},
    "SecretKey": {"secret": "databases", "key": "warehouse"},
    "PodOptions": {
        "image": "registry.example/dpone-runtime:0.1.0",
        "image_pull_secrets": ["registry"],
        "namespace": "loads",
        "service_account": "dpone",
        "labels": {"team": "data"},
        "annotations": {"owner": "data"},
        "node_selector": {"disk": "fast"},
        "tolerations": [{"key": "loads", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priority_class": "loads",
        "env_vars": {"TZ": "UTC"},
        "kubernetes_conn_id": "cluster",
        "pod_template_file": "/opt/airflow/templates/load.yaml",
        "run_as_user": 10001,
        "fs_group": 10001,
        "startup_timeout_seconds": 300,
        "active_deadline_seconds": 86_400,
        "termination_grace_seconds": 60,
        "poll_interval_seconds": 10,
        "pack_path": "/opt/dpone/packs",
    },
    "ResourceOptions": {"requests": {"cpu": "1"}, "limits": {"memory": "512Mi"}},
}
"""Name of a model and key: an example. Closed sets, blocks and switches need none."""

_TABLES = {
    "source": {
        "type": "postgres",
        "connection_ref": "source_db",
        "table": {"schema": "public", "name": "orders"},
    },
    "sink": {
        "type": "postgres",
        "connection_ref": "target_db",
        "table": {"schema": "analytics", "name": "orders"},
        "strategy": {
            "mode": "backfill",
            "backfill": {
                "chunk": {"column": "order_date", "from": "2024-01-01", "to": "2024-01-03", "step": "1d"},
                "state": {"backend": "audit_schema", "require_distributed_lock": True},
            },
        },
    },
}
_MANIFEST = {"name": "orders_history", **_TABLES}
_LIMITS = {"max_items": 2, "max_active": 1, "pool": "dpone_backfill"}
_PLAN = {
    "schema": "dpone.airflow-mapping-plan.v1",
    "mode": "summary",
    "plan_fingerprint": _FIRST,
    "backfill_plan_hash": _SECOND,
    "chunks_total": 3,
    "items_total": 2,
    "limits": _LIMITS,
    "items": [
        {"item_index": 0, "first_chunk_index": 1, "last_chunk_index": 2, "chunks_count": 2},
        {"item_index": 1, "first_chunk_index": 3, "last_chunk_index": 3, "chunks_count": 1},
    ],
}
_PROCESS = {
    "schema": "dpone.process.v1",
    "manifest": _MANIFEST,
    "mapping": {"mode": "summary", "limits": _LIMITS},
}
_SECRET = {"variable": "DPONE_CONN_TARGET_DB", "secret": "databases", "key": "target"}
_SECRET_COMMAND = (
    "kubectl create secret generic databases "
    "--from-literal=target='postgresql://USER:PASSWORD@HOST:5432/DATABASE'"
)
_ERROR = {
    "schema": "dpone.error.v1",
    "code": "DPONE_BACKFILL_CAMPAIGN_MISSING",
    "message": "the ledger has no campaign orders-2024",
    "where": "schema dpone_audit of connection target_db",
    "next_step": "begin it with `dpone backfill run orders.yaml --execute`, or check window and overrides",
    "fields": {},
}

WHOLE_EXAMPLES: dict[str, Any] = {
    "manifest": _MANIFEST,
    "catalog": {
        "workloads": {
            "orders_history": {
                "manifest": "orders_history.yaml",
                "airflow": {
                    "mapping": {"mode": "summary", "max_items": 2, "max_active": 1},
                    "execution": {"schedule": None, "start_date": "2024-01-01", "backend": "process"},
                },
            }
        }
    },
    "pack": {
        "schema": "dpone.airflow-pack.v1",
        "fingerprint": _THIRD,
        "minimum_provider_version": "0.1.0",
        "release": "2024.1",
        "deployment": "prod",
        "workload": "orders_history",
        "dag": {"dag_id": "orders_history", "tags": ["dpone"]},
        "processes": [
            {
                "task_id": "orders_history",
                "backend": "process",
                "process": _PROCESS,
                "process_digest": _FIRST,
                "mapping": _PLAN,
                "labels": ["2024-01-01 .. 2024-01-02", "2024-01-03"],
                "mapped_kpo_kwargs": {},
                "retry_authority": {"max_retries": 3, "reason": "a chunk's commit can be replayed"},
            }
        ],
    },
    "plan": _PLAN,
    "item": {
        "schema": "dpone.airflow-mapping-item.v1",
        "mode": "summary",
        "mapping_plan_fingerprint": _FIRST,
        "backfill_plan_hash": _SECOND,
        "item_index": 0,
        "first_chunk_index": 1,
        "last_chunk_index": 2,
        "chunks_count": 2,
    },
    "outcome": {
        "schema": "dpone.run-outcome.v1",
        "status": "failed",
        "exit_code": 2,
        "process": "orders_history",
        "attempt": {"dag_id": "orders_history", "dag_run_id": "manual__1", "try_number": 1},
        "interval": {},
        "error": _ERROR,
    },
    "error": _ERROR,
    "process": _PROCESS,
    "run-identity": {
        "schema": "dpone.airflow-run-identity.v1",
        "release": "2024.1",
        "deployment": "prod",
        "workload": "orders_history",
        "process": "orders_history",
        "pack_fingerprint": _THIRD,
        "process_digest": _FIRST,
    },
    "release-index": {
        "schema": "dpone.release-index.v1",
        "fingerprint": _SECOND,
        "release": "2024.1",
        "deployment": "prod",
        "packs": [
            {
                "workload": "orders_history",
                "path": "orders_history/airflow-pack.json",
                "fingerprint": _THIRD,
                "size_bytes": 2048,
            }
        ],
    },
    "check": {
        "schema": "dpone.check.v1",
        "workloads": 1,
        "errors": 1,
        "warnings": 0,
        "findings": [
            {
                "path": "orders_history.yaml",
                "line": 17,
                "column": 9,
                "severity": "error",
                "code": "DPONE_MANIFEST_INVALID",
                "message": "unquoted date 2024-01-01",
                "next_step": 'write it as text: "2024-01-01"',
            }
        ],
    },
    "airflow-preview": {
        "schema": "dpone.airflow-preview.v1",
        "workloads": [
            {
                "workload": "orders_history",
                "release": "2024.1",
                "deployment": "prod",
                "pack_fingerprint": _THIRD,
                "dag": {"dag_id": "orders_history", "tags": ["dpone"]},
                "processes": [
                    {
                        "process": "orders_history",
                        "backend": "kubernetes",
                        "mode": "summary",
                        "tasks": [
                            {"task_id": "orders_history", "kind": "load", "runs_in": "pod", "instances": 2}
                        ],
                        "labels": ["2024-01-01 .. 2024-01-02", "2024-01-03"],
                        "most_at_once": 1,
                        "pool": {
                            "name": "dpone_backfill",
                            "slots": 1,
                            "command": 'airflow pools set dpone_backfill 1 "dpone backfill"',
                        },
                        "plan_fingerprint": _FIRST,
                        "process_digest": _FIRST,
                        "retry_authority": {"max_retries": 3, "reason": "a chunk's commit can be replayed"},
                        "ledger": {"schema": "dpone_audit", "require_distributed_lock": True},
                        "publication": {"mode": "shadow_swap"},
                        "outlets": [],
                        "connections": [
                            {
                                "name": "target_db",
                                "variables": ["DPONE_CONN_TARGET_DB", "AIRFLOW_CONN_TARGET_DB"],
                                "secret": _SECRET,
                            }
                        ],
                        "pod": {
                            "image": "registry.example/dpone-runtime:0.1.0",
                            "security": {"run_as_user": 10001, "token_mounted": False},
                            "deferrable": True,
                            "poll_interval_seconds": 10,
                            "startup_timeout_seconds": 600,
                            "on_finish_action": "delete_pod",
                            "secrets": [_SECRET],
                            "secret_commands": [_SECRET_COMMAND],
                            "permissions": [{"resource": "pods/log", "verbs": ["get"]}],
                        },
                        "sizes": {
                            "process_argument_bytes": 592,
                            "environment_bytes": 691,
                            "serialised_item_bytes": 1270,
                        },
                    }
                ],
                "sizes": {"pack_bytes": 2048, "serialised_bytes": 5600},
            }
        ],
    },
}
"""Kind of a schema: one whole document."""
