"""Provider metadata for Airflow; imports nothing of Airflow, which reads it before it is ready itself."""

VERSION = "0.1.0"


def get_provider_info() -> dict[str, object]:
    """What Airflow lists about this provider."""
    return {
        "package-name": "airflow-provider-dpone",
        "name": "dpone",
        "description": "Resumable, chunked, exactly-once historical loads between databases.",
        "versions": [VERSION],
    }
