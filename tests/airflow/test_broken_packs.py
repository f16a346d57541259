"""A bad pack breaks its own DAG only, as an import error that names its file."""

import json

import pytest

from airflow_provider_dpone import DponeDag, load_dpone_dags
from airflow_provider_dpone.broken_pack import BrokenPackDag
from airflow_provider_dpone.pack_files import find_packs, read_pack
from airflow_provider_dpone.version_compat import AIRFLOW_3, files_errors_by_dag
from dpone_contract.canonical import canonical_json
from dpone_contract.errors import PackInvalidError
from dpone_contract.pack import pack_fingerprint
from tests.airflow.airflow_stand_ins import dag_bag, round_trip
from tests.factories import make_pack, make_process_plan, write_pack_file

DAG_FILE = """\
from pathlib import Path
from airflow_provider_dpone import load_dpone_dags
load_dpone_dags(Path(__file__).parent / "packs")  # airflow dag
"""
DOCUMENT = make_pack().to_document()
OTHER_VALUES = {
    "schema": "dpone.airflow-pack.v2",
    "fingerprint": "sha256:" + "1" * 64,
    "minimum_provider_version": "0.0.9",
    "release": "other",
    "deployment": "other",
    "workload": "other",
    "dag": {"dag_id": "other"},
    "processes": [],
}


@pytest.fixture
def in_dag_processor(monkeypatch):
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")


def write_document(path, document, *, sealed=True):
    if sealed:
        document = {**document, "fingerprint": pack_fingerprint(document)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json(document))
    return path


def import_errors_of(bag):
    """What Airflow would store as import errors: by file, with their last line."""
    errors = dict(bag.import_errors)
    for dag in bag.dags.values():
        try:
            round_trip(dag)
        except Exception as error:  # noqa: BLE001  as Airflow itself does at this place
            errors[str(getattr(dag, "relative_fileloc", None) or dag.fileloc)] = str(error)
    return errors


def test_documents_have_the_fields_that_are_flipped_below():
    assert set(OTHER_VALUES) == set(DOCUMENT)


@pytest.mark.parametrize("field", sorted(OTHER_VALUES))
def test_a_pack_with_one_changed_field_is_refused(tmp_path, field):
    assert DOCUMENT[field] != OTHER_VALUES[field]
    changed = {**DOCUMENT, field: OTHER_VALUES[field]}
    path = write_document(tmp_path / "airflow-pack.json", changed, sealed=False)
    with pytest.raises(PackInvalidError) as caught:
        read_pack(path)
    assert caught.value.where == str(path)
    assert caught.value.next_step


@pytest.mark.parametrize("field", sorted(set(OTHER_VALUES) - {"fingerprint"}))
def test_a_pack_that_lacks_a_field_is_refused_though_its_fingerprint_fits(tmp_path, field):
    document = {name: value for name, value in DOCUMENT.items() if name != field}
    with pytest.raises(PackInvalidError):
        read_pack(write_document(tmp_path / "airflow-pack.json", document))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema":1,"schema":2}', b"[" * 100_000]
)
def test_what_is_no_pack_is_refused(tmp_path, data):
    path = tmp_path / "airflow-pack.json"
    path.write_bytes(data)
    with pytest.raises(PackInvalidError, match="airflow-pack"):
        read_pack(path)


def test_a_pack_beyond_the_size_limit_is_refused_unread(tmp_path):
    path = tmp_path / "airflow-pack.json"
    path.write_bytes(b" " * (3 * 1024 * 1024))
    with pytest.raises(PackInvalidError, match="more than"):
        read_pack(path)


@pytest.mark.parametrize("version", ["0.1.1", "0.2.0", "1.0.0", "0.10.0"])
def test_a_pack_for_a_newer_provider_is_refused_with_the_version_to_install(tmp_path, version):
    path = write_pack_file(tmp_path, make_pack(minimum_provider_version=version))
    with pytest.raises(PackInvalidError, match=f"upgrade airflow-provider-dpone to {version}"):
        read_pack(path)


def test_a_newer_pack_with_fields_unknown_here_is_refused_by_its_version(tmp_path):
    document = {**DOCUMENT, "minimum_provider_version": "2.0.0", "lineage": {"unknown": True}}
    path = write_document(tmp_path / "airflow-pack.json", document)
    with pytest.raises(PackInvalidError, match=r"needs airflow-provider-dpone 2\.0\.0"):
        read_pack(path)


def test_a_newer_schema_is_refused_with_the_upgrade_hint(tmp_path):
    document = {**DOCUMENT, "schema": "dpone.airflow-pack.v2"}
    with pytest.raises(PackInvalidError, match="upgrade airflow-provider-dpone"):
        read_pack(write_document(tmp_path / "airflow-pack.json", document))


@pytest.mark.parametrize("version", ["0.0.1", "0.1.0"])
def test_a_pack_for_this_or_an_older_provider_is_read(tmp_path, version):
    pack = make_pack(minimum_provider_version=version)
    assert read_pack(write_pack_file(tmp_path, pack)) == pack


def test_packs_are_found_in_order(tmp_path):
    for workload in ("b", "a", "c/deep"):
        path = tmp_path / workload / "airflow-pack.json"
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "release-index.json").touch()
    found = [path.parent.relative_to(tmp_path).as_posix() for path in find_packs(tmp_path)]
    assert found == ["a", "b", "c/deep"]


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(PackInvalidError, match="no folder of packs"):
        load_dpone_dags(tmp_path / "nowhere", {})


def test_a_bad_pack_used_alone_is_raised(tmp_path):
    path = write_document(tmp_path / "airflow-pack.json", {**DOCUMENT, "release": "other"}, sealed=False)
    with pytest.raises(PackInvalidError, match="was changed"):
        DponeDag(pack=path)


def test_a_bad_pack_is_an_import_error_of_its_own_file(tmp_path, in_dag_processor):
    write_pack_file(tmp_path / "packs", make_pack("good"))
    bad = write_document(
        tmp_path / "packs/bad/airflow-pack.json", {**DOCUMENT, "release": "other"}, sealed=False
    )
    (tmp_path / "flights.py").write_text(DAG_FILE)
    bag = dag_bag(tmp_path)
    ((file, message),) = import_errors_of(bag).items()
    assert str(bad).endswith(file)
    assert file.endswith("packs/bad/airflow-pack.json")
    assert "DPONE_PACK_INVALID: the pack was changed after it was built" in message
    assert str(bad) in message
    good = [dag for dag in bag.dags.values() if not isinstance(dag, BrokenPackDag)]
    assert [(dag.dag_id, dag.fileloc) for dag in good] == [("good", str(tmp_path / "flights.py"))]


@pytest.mark.skipif(not AIRFLOW_3, reason="Airflow 2 stores DAGs in its processor itself")
def test_airflows_processor_files_it_under_the_pack(tmp_path, in_dag_processor):
    from airflow.dag_processing.processor import _serialize_dags
    from structlog import get_logger

    write_pack_file(tmp_path / "packs", make_pack("good"))
    write_pack_file(tmp_path / "packs", make_pack("cron", dag={"schedule": "61 * * * *"}))
    (tmp_path / "flights.py").write_text(DAG_FILE)
    stored, errors = _serialize_dags(dag_bag(tmp_path), get_logger())
    assert [dag.dag_id for dag in stored] == ["good"]
    assert [file.endswith("packs/cron/airflow-pack.json") for file in errors] == [True]


@pytest.mark.skipif(not AIRFLOW_3, reason="Airflow 2 sets a broken DAG aside wherever it stores DAGs")
def test_on_the_command_line_a_bad_pack_is_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT", raising=False)
    write_document(tmp_path / "bad/airflow-pack.json", {**DOCUMENT, "release": "x"}, sealed=False)
    module: dict[str, object] = {}
    assert not files_errors_by_dag()
    assert load_dpone_dags(tmp_path, module) == {}
    assert module == {}
    assert "pack refused" in caplog.text


@pytest.mark.parametrize(
    "dag",
    [{"schedule": "61 * * * *", "start_date": "2013-01-01"}, {"schedule": "often"}, {"start_date": "soon"}],
)
def test_what_airflow_refuses_in_one_pack_does_not_hide_the_others(tmp_path, in_dag_processor, dag):
    write_pack_file(tmp_path, make_pack("good"))
    write_pack_file(tmp_path, make_pack("bad", dag=dag))
    module: dict[str, object] = {}
    assert list(load_dpone_dags(tmp_path, module)) == ["good"]
    (broken,) = (dag for dag in module.values() if isinstance(dag, BrokenPackDag))
    assert broken.error.where == str(tmp_path / "bad/airflow-pack.json")


def test_two_tasks_of_one_name_break_their_own_pack(tmp_path):
    write_pack_file(tmp_path, make_pack("good"))
    write_pack_file(tmp_path, make_pack("twice", processes=(make_process_plan(), make_process_plan())))
    assert list(load_dpone_dags(tmp_path, {})) == ["good"]


def test_a_dag_id_claimed_twice_is_refused_for_all_and_names_all(tmp_path):
    write_pack_file(tmp_path, make_pack("good"))
    for workload in ("one", "copy"):
        write_pack_file(tmp_path, make_pack(workload, dag={"dag_id": "flights"}))
    assert list(load_dpone_dags(tmp_path, {})) == ["good"]
    with pytest.raises(PackInvalidError, match="claimed by several packs") as caught:
        load_dpone_dags(tmp_path, {}, strict=True)
    assert str(tmp_path / "one/airflow-pack.json") in caught.value.message
    assert str(tmp_path / "copy/airflow-pack.json") in caught.value.message


def test_strict_raises_one_error_that_names_every_bad_pack(tmp_path):
    write_pack_file(tmp_path, make_pack("good"))
    for name in ("bad", "worse"):
        write_document(tmp_path / name / "airflow-pack.json", {"schema": name}, sealed=False)
    with pytest.raises(PackInvalidError, match=r"2 bad packs: .*bad/airflow-pack.*worse/airflow-pack"):
        load_dpone_dags(tmp_path, {}, strict=True)


def test_a_pack_is_json_only(tmp_path):
    # Nothing of a pack is ever run: it is data, proved before it is used.
    path = write_pack_file(tmp_path, make_pack())
    assert json.loads(path.read_bytes()) == DOCUMENT
