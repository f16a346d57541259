"""The executor: from a process and, where Airflow maps it, one item, to chunks committed exactly once.

`domain` holds the rules, `ports` what the rules need from outside, `services` the use cases; `adapters` speak to databases and
processes; `bootstrap` joins them and `cli` is how they are called. Arrows run in that order only, and never to Airflow.
"""
