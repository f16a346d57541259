"""Airflow provider: it turns a verified pack into tasks and opens nothing but the pack file."""
