"""The published import path `airflow.providers.dpone`; hands on the names of `airflow_provider_dpone`."""
