"""The whole DAG file of the quickstart: every pack becomes a DAG.

Packs are looked for in the folder that DPONE_PACKS_DIR names, else in `packs/` beside this file. A deployment that keeps
its packs in one place needs no variable, and then the file is the import and the call.
"""

import os
from pathlib import Path

from airflow_provider_dpone import load_dpone_dags

load_dpone_dags(os.environ.get("DPONE_PACKS_DIR") or Path(__file__).parent / "packs")
