"""Every static rule has its code, its place and a way out; a valid project has no finding."""

import random

import pytest

from dpone_contract.finding import Severity
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.project import load_project
from tests.unit.packbuilder.project_files import line_of, manifest, workload, write_project


def check(folder):
    return check_project(load_project(folder))


def only(findings):
    assert len(findings) == 1, [f"{found.where} {found.code} {found.message}" for found in findings]
    assert findings[0].next_step
    return findings[0]


def check_manifest(tmp_path, mapping=None, **changes):
    mapping = {"mode": "summary", "max_items": 4, "max_active": 2} if mapping is None else mapping
    folder = write_project(
        tmp_path,
        workloads={"orders": workload(mapping=mapping)},
        manifests={"orders.yaml": manifest(**changes)},
    )
    return check(folder)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_valid_project_has_no_finding(tmp_path):
    assert check(write_project(tmp_path)) == ()


def test_a_valid_manifest_alone_has_no_finding(tmp_path):
    write_project(tmp_path)
    assert check(tmp_path / "orders.yaml") == ()


@pytest.mark.parametrize(
    "mapping, key, code",
    [
        ({"mode": "sumary"}, "mode", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": 1}, "mode", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": "summary", "max_items": 0}, "max_items", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": "summary", "max_items": 201}, "max_items", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": "summary", "max_items": "4"}, "max_items", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": "summary", "max_items": True}, "max_items", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        ({"mode": "summary", "max_active": 65}, "max_active", "DPONE_AIRFLOW_MAPPING_POLICY_INVALID"),
        (
            {"mode": "summary", "max_items": 4, "max_active": 5},
            "max_active",
            "DPONE_AIRFLOW_MAPPING_POLICY_INVALID",
        ),
        ({"mode": "summary", "pool": ""}, "pool", "DPONE_AIRFLOW_MAPPING_POOL_REQUIRED"),
        ({"mode": "visible", "pool": " "}, "pool", "DPONE_AIRFLOW_MAPPING_POOL_REQUIRED"),
        ({"mode": "summary", "pool": 7}, "pool", "DPONE_AIRFLOW_MAPPING_POOL_REQUIRED"),
        (
            {"mode": "visible", "max_items": 9, "max_active": 1},
            "max_items",
            "DPONE_AIRFLOW_MAPPING_TASK_LIMIT_EXCEEDED",
        ),
    ],
)
def test_a_bad_mapping_is_found_at_its_key(tmp_path, mapping, key, code):
    finding = only(check_manifest(tmp_path, mapping))
    assert (code, "workloads.yaml", line_of(tmp_path / "workloads.yaml", key), 9) == (
        finding.code,
        finding.path,
        finding.line,
        finding.column,
    )


@pytest.mark.parametrize("mode", ["visible", "summary", "internal"])
def test_each_mode_is_accepted(tmp_path, mode):
    assert check_manifest(tmp_path, {"mode": mode, "max_items": 10, "max_active": 2}) == ()


def test_a_mapping_in_the_manifest_is_found_there(tmp_path):
    folder = write_project(
        tmp_path,
        workloads={"orders": {"manifest": "orders.yaml", "airflow": {"execution": {"backend": "process"}}}},
        manifests={"orders.yaml": manifest(gitops__airflow__mapping={"mode": "sumary"})},
    )
    finding = only(check(folder))
    assert ("orders.yaml", line_of(tmp_path / "orders.yaml", "gitops") + 3) == (finding.path, finding.line)


@pytest.mark.parametrize(
    "changes, key, code",
    [
        ({"chunk": None}, "backfill", "DPONE_AIRFLOW_MAPPING_REQUIRES_CHUNKED_BACKFILL"),
        ({"chunk__from": "{{ ds }}"}, "from", "DPONE_AIRFLOW_MAPPING_REQUIRES_CHUNKED_BACKFILL"),
        ({"chunk__to": "{{ds}}"}, "to", "DPONE_AIRFLOW_MAPPING_REQUIRES_CHUNKED_BACKFILL"),
        (
            {"backfill__parallel_workers": 3},
            "parallel_workers",
            "DPONE_AIRFLOW_MAPPING_PARALLELISM_MULTIPLIER",
        ),
        ({"backfill__state__backend": "local_file"}, "backend", "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED"),
        (
            {"backfill__state__require_distributed_lock": False},
            "require_distributed_lock",
            "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED",
        ),
        (
            {"backfill__state__require_distributed_lock": None},
            "state",
            "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED",
        ),
    ],
)
def test_what_a_mapped_mode_needs_is_found_at_its_key(tmp_path, changes, key, code):
    finding = only(check_manifest(tmp_path, **changes))
    assert (code, "orders.yaml", line_of(tmp_path / "orders.yaml", key)) == (
        finding.code,
        finding.path,
        finding.line,
    )


@pytest.mark.parametrize(
    "changes, key",
    [
        (
            {"backfill__state__require_distributed_lock": None, "backfill__inner_mode": "incremental_append"},
            "inner_mode",
        ),
        ({"backfill__state__require_distributed_lock": True}, "require_distributed_lock"),
    ],
)
def test_what_a_ledger_in_a_folder_cannot_promise_is_found_at_its_key(tmp_path, changes, key):
    finding = only(
        check_manifest(tmp_path, {"mode": "internal"}, backfill__state__backend="local_file", **changes)
    )
    assert ("DPONE_BACKFILL_STATE_UNSUPPORTED", line_of(tmp_path / "orders.yaml", key)) == (
        finding.code,
        finding.line,
    )
    assert "audit_schema" in finding.next_step


def test_a_load_over_a_ledger_in_a_folder_is_accepted(tmp_path):
    changes = {"backfill__state": {"backend": "local_file"}, "backfill__state_dir": "ledger"}
    assert check_manifest(tmp_path, {"mode": "internal"}, **changes) == ()


def test_a_clickhouse_sink_cannot_hold_the_ledger_of_a_mapped_mode(tmp_path):
    finding = only(check_manifest(tmp_path, sink__type="clickhouse"))
    assert finding.code == "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED"
    assert finding.line == line_of(tmp_path / "orders.yaml", "sink") + 1


def test_the_multiplied_parallelism_is_told_in_numbers(tmp_path):
    assert (
        "up to 6 chunks at once, not max_active 2"
        in only(check_manifest(tmp_path, backfill__parallel_workers=3)).message
    )


def test_workers_of_an_unmapped_load_are_its_own_business(tmp_path):
    assert () == check_manifest(tmp_path, {"mode": "internal"}, backfill__parallel_workers=3)


@pytest.mark.parametrize(
    "changes, key",
    [
        ({"chunk__from": "2024-02-30"}, "from"),
        ({"chunk__from": "soon"}, "from"),
        ({"chunk__from": "{{ dss }}"}, "from"),
        ({"chunk__to": "{{ execution_date }}"}, "to"),
        ({"chunk__to": "{{ ds"}, "to"),
        ({"chunk__to": "2023-12-31"}, "chunk"),
        ({"chunk__to": None}, "chunk"),
        ({"chunk__step": "1x"}, "step"),
        ({"chunk__step": 5}, "step"),
        ({"chunk__step": "0d"}, "step"),
        ({"chunk__timezone": "Mars/Olympus"}, "timezone"),
        ({"backfill__max_chunks": 9}, "chunk"),
        ({"backfill__backfill_id": "a b"}, "backfill_id"),
    ],
)
def test_a_window_that_cannot_be_planned_is_found_at_its_key(tmp_path, changes, key):
    finding = only(check_manifest(tmp_path, {"mode": "internal"}, **changes))
    assert ("DPONE_BACKFILL_PLAN_INVALID", line_of(tmp_path / "orders.yaml", key)) == (
        finding.code,
        finding.line,
    )


def test_a_templated_window_of_an_unmapped_load_is_accepted(tmp_path):
    assert check_manifest(tmp_path, {"mode": "internal"}, chunk__from="{{ ds }}", chunk__to="{{ ds }}") == ()


def test_a_token_that_cannot_bound_a_date_window_is_found(tmp_path):
    finding = only(check_manifest(tmp_path, {"mode": "internal"}, chunk__to="{{ data_interval_end }}"))
    assert ("DPONE_BACKFILL_PLAN_INVALID", line_of(tmp_path / "orders.yaml", "to")) == (
        finding.code,
        finding.line,
    )


INTERVAL = {"chunk__from": "{{ data_interval_start }}", "chunk__to": "{{ data_interval_end }}"}


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu"])
@pytest.mark.parametrize("kind", ["date", "timestamp", None])
def test_an_interval_bounds_days_and_instants_in_any_zone(tmp_path, kind, timezone):
    changes = {"chunk__kind": kind, "chunk__timezone": timezone, **INTERVAL}
    assert check_manifest(tmp_path, {"mode": "internal"}, **changes) == ()


@pytest.mark.parametrize(
    "token", ["{{ data_interval_begin }}", "{{ params.day }}", "{{ ds", "{{ }}", "{{ None }}"]
)
@pytest.mark.parametrize("key", ["from", "to"])
def test_another_token_is_found_at_its_key(tmp_path, key, token):
    finding = only(check_manifest(tmp_path, {"mode": "internal"}, **INTERVAL | {f"chunk__{key}": token}))
    assert ("DPONE_BACKFILL_PLAN_INVALID", line_of(tmp_path / "orders.yaml", key)) == (
        finding.code,
        finding.line,
    )


def test_a_pinned_id_of_a_templated_window_is_refused(tmp_path):
    finding = only(
        check_manifest(
            tmp_path,
            {"mode": "internal"},
            chunk__from="{{ ds }}",
            chunk__to="{{ ds }}",
            backfill__backfill_id="fixed",
        )
    )
    assert ("DPONE_BACKFILL_PLAN_INVALID", line_of(tmp_path / "orders.yaml", "backfill_id")) == (
        finding.code,
        finding.line,
    )


MERGE = {"backfill__inner_mode": "incremental_merge"}


def test_a_merge_whose_keys_may_meet_in_two_chunks_is_a_warning(tmp_path):
    finding = only(check_manifest(tmp_path, **MERGE, sink__strategy__unique_key=["order_id"]))
    assert (Severity.WARNING, line_of(tmp_path / "orders.yaml", "inner_mode")) == (
        finding.severity,
        finding.line,
    )
    assert "order_date is not part of unique_key" in finding.message
    assert "version_column" in finding.next_step


@pytest.mark.parametrize("changes", [{"key": ["order_date", "order_id"]}, {"version_column": "updated_at"}])
def test_a_merge_whose_keys_are_ordered_is_not_warned_of(tmp_path, changes):
    version = {f"sink__strategy__{key}": value for key, value in changes.items() if key != "key"}
    key = changes.get("key", ["order_id"])
    assert () == check_manifest(tmp_path, **MERGE, sink__strategy__unique_key=key, **version)


@pytest.mark.parametrize(
    "changes", [{**MERGE, "sink__strategy__unique_key": None}, {"backfill__inner_mode": "full_refresh"}]
)
def test_a_mode_that_does_not_fit_is_told_at_the_mode(tmp_path, changes):
    finding = only(check_manifest(tmp_path, **changes))
    assert ("DPONE_BACKFILL_PLAN_INVALID", line_of(tmp_path / "orders.yaml", "inner_mode")) == (
        finding.code,
        finding.line,
    )


def test_a_lease_duration_is_a_warning(tmp_path):
    finding = only(check_manifest(tmp_path, backfill__lease_ttl_minutes=30))
    assert (Severity.WARNING, line_of(tmp_path / "orders.yaml", "lease_ttl_minutes")) == (
        finding.severity,
        finding.line,
    )


@pytest.mark.parametrize(
    "selected, key, told",
    [
        ({"columns": ["id", "at"]}, "columns", "'order_date' of chunk.column"),
        ({"columns": ["order_date", "at"]}, "columns", "'id' of unique_key"),
        ({"columns": ["order_date", "id", "At"]}, "columns", "'at' of version_column"),
        ({"exclude_columns": ["order_date"]}, "exclude_columns", "'order_date' of chunk.column"),
        ({"exclude_columns": ["note", "id"]}, "exclude_columns", "'id' of unique_key"),
        (
            {"columns": ["order_date", "id", "at"], "exclude_columns": ["at"]},
            "exclude_columns",
            "'at' of version_column",
        ),
    ],
)
def test_a_column_that_the_campaign_needs_and_does_not_load_is_found(tmp_path, selected, key, told):
    strategy = {"sink__strategy__unique_key": ["order_date", "id"], "sink__strategy__version_column": "at"}
    changes = {f"source__{name}": names for name, names in selected.items()}
    finding = only(check_manifest(tmp_path, backfill__inner_mode="incremental_merge", **strategy, **changes))
    assert ("DPONE_COLUMNS_DIFFER", "orders.yaml", line_of(tmp_path / "orders.yaml", key)) == (
        finding.code,
        finding.path,
        finding.line,
    )
    assert told in finding.message
    assert f"source.{key}" in finding.next_step


def test_columns_that_are_loaded_are_not_found(tmp_path):
    changes = {"source__columns": ["id", "order_date"], "source__exclude_columns": ["note"]}
    assert check_manifest(tmp_path, sink__strategy__unique_key=["id", "order_date"], **changes) == ()


@pytest.mark.parametrize(
    "execution, key, code",
    [
        ({"retries": 4}, "retries", "DPONE_RETRY_AUTHORITY_EXCEEDED"),
        ({"start_date": "2024-13-01"}, "start_date", "DPONE_MANIFEST_INVALID"),
        ({"start_date": "yesterday"}, "start_date", "DPONE_MANIFEST_INVALID"),
        ({"schedule": "@dayly", "start_date": "2024-01-01"}, "schedule", "DPONE_MANIFEST_INVALID"),
        ({"schedule": "0 25 * * *", "start_date": "2024-01-01"}, "schedule", "DPONE_MANIFEST_INVALID"),
        ({"schedule": "@daily"}, "schedule", "DPONE_MANIFEST_INVALID"),
        ({"outlets": ["has space"]}, "outlets", "DPONE_MANIFEST_INVALID"),
        ({"dag_id": "a b"}, "dag_id", "DPONE_MANIFEST_INVALID"),
        ({"retries": -1}, "retries", "DPONE_MANIFEST_INVALID"),
        ({"catchup": "no"}, "catchup", "DPONE_MANIFEST_INVALID"),
    ],
)
def test_a_bad_execution_is_found_at_its_key(tmp_path, execution, key, code):
    finding = only(check(write_project(tmp_path, workloads={"orders": workload(**execution)})))
    assert (code, line_of(tmp_path / "workloads.yaml", key)) == (finding.code, finding.line)


@pytest.mark.parametrize("retries", [0, 3])
def test_retries_within_the_retry_authority_are_accepted(tmp_path, retries):
    assert check(write_project(tmp_path, workloads={"orders": workload(retries=retries)})) == ()


def test_catchup_of_a_fixed_window_is_a_warning(tmp_path):
    execution = {"catchup": True, "schedule": "@daily", "start_date": "2024-01-01"}
    finding = only(check(write_project(tmp_path, workloads={"orders": workload(**execution)})))
    assert (Severity.WARNING, line_of(tmp_path / "workloads.yaml", "catchup")) == (
        finding.severity,
        finding.line,
    )


def two(tmp_path, *, second=None, **execution):
    return write_project(
        tmp_path,
        workloads={"one": workload(), "two": workload(manifest_path="two.yaml", **execution)},
        manifests={"orders.yaml": manifest(), "two.yaml": second or manifest(sink__table__name="other")},
    )


def test_two_workloads_of_two_targets_have_no_finding(tmp_path):
    assert check(two(tmp_path)) == ()


def test_two_workloads_cannot_have_one_dag_id(tmp_path):
    finding = only(check(two(tmp_path, dag_id="one")))
    assert ("DPONE_MANIFEST_INVALID", line_of(tmp_path / "workloads.yaml", "dag_id")) == (
        finding.code,
        finding.line,
    )


@pytest.mark.parametrize(
    "changes, overlapping",
    [
        ({"chunk__from": "2024-01-10", "chunk__to": "2024-01-12"}, True),
        ({"chunk__from": "2024-01-11", "chunk__to": "2024-01-12"}, False),
        ({"chunk__column": "paid_on", "chunk__from": "2025-01-01", "chunk__to": "2025-01-02"}, True),
        ({"sink__connection_ref": "elsewhere"}, False),
        (
            {
                "backfill__inner_mode": "full_refresh",
                "chunk__from": "2025-01-01",
                "chunk__to": "2025-01-01",
            },
            True,
        ),
    ],
)
def test_overlapping_windows_of_one_target_are_a_warning(tmp_path, changes, overlapping):
    findings = check(two(tmp_path, second=manifest(**changes)))
    found = [(finding.code, finding.severity, finding.path) for finding in findings]
    assert found == ([("DPONE_BACKFILL_OVERLAP", Severity.WARNING, "two.yaml")] if overlapping else [])


def test_a_pack_beyond_its_size_is_found_before_it_is_built(tmp_path):
    # Random text does not compress, so the argument of the process grows with it.
    words = [f"{random.Random(i).getrandbits(400):x}" for i in range(2000)]
    finding = only(check_manifest(tmp_path, sink__strategy__unique_key=words))
    assert finding.code == "DPONE_PACK_TOO_LARGE"
    assert finding.path == "orders.yaml"


def test_every_finding_of_several_files_is_given_once_and_in_order(tmp_path):
    shared = manifest(chunk__step="1x")
    folder = write_project(
        tmp_path,
        workloads={"one": workload(retries=9), "two": workload(retries=9)},
        manifests={"orders.yaml": shared},
    )
    assert [(found.path, found.code) for found in check(folder)] == [
        ("orders.yaml", "DPONE_BACKFILL_PLAN_INVALID"),
        ("workloads.yaml", "DPONE_RETRY_AUTHORITY_EXCEEDED"),
        ("workloads.yaml", "DPONE_RETRY_AUTHORITY_EXCEEDED"),
    ]


def test_defaults_hold_for_every_workload_that_does_not_say_otherwise(tmp_path):
    entry = {"manifest": "orders.yaml"}
    defaults = {
        "airflow": {"mapping": {"mode": "summary"}, "execution": {"backend": "process", "retries": 9}}
    }
    finding = only(check(write_project(tmp_path, workloads={"orders": entry}, defaults=defaults)))
    assert ("DPONE_RETRY_AUTHORITY_EXCEEDED", line_of(tmp_path / "workloads.yaml", "retries")) == (
        finding.code,
        finding.line,
    )


def test_a_dag_id_cannot_be_a_default(tmp_path):
    finding = only(check(write_project(tmp_path, defaults={"airflow": {"execution": {"dag_id": "x"}}})))
    assert finding.line == line_of(tmp_path / "workloads.yaml", "dag_id")
