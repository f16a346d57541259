"""Whatever becomes of its owner, the stand-in leaves no process and no file behind."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from kubernetes import client, config

from tests.airflow.pods.pod_bodies import make_pod
from tests.kubernetes_api.image import ROOT
from tests.kubernetes_api.kubernetes_api import KubernetesApi
from tests.waiting import wait_until

# Starts the API, a pod that does not listen to SIGTERM, and tells; then it does as it is told.
OWNER = """
import json, sys, threading
from kubernetes import client, config
from tests.airflow.pods.pod_bodies import make_pod
from tests.kubernetes_api.kubernetes_api import KubernetesApi

with KubernetesApi(isolation=sys.argv[1]) as api, config.new_client_from_config(str(api.kubeconfig)) as connected:
    script = "trap '' TERM HUP INT; setsid sh -c 'sleep 1000' & echo ready; while true; do sleep 0.05; done"
    client.CoreV1Api(connected).create_namespaced_pod("default", make_pod(script))
    api.wait_for(lambda pod: pod.log == ("ready",))
    print(json.dumps({"server": api.pid, "folder": str(api.folder)}), flush=True)
    sys.stdin.read()
"""


def descendants(pid):
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


@pytest.mark.parametrize("end", ["end", "SIGINT", "SIGKILL"])
def test_nothing_is_left_behind(end, running_either_api):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, running_either_api.isolation],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    with owner:
        told = json.loads(owner.stdout.readline())
        server = psutil.Process(told["server"])
        started = [server, *descendants(told["server"])]
        assert len(started) >= 4, "the server, the container's runtime, its shell and what that has started"
        if end == "end":
            owner.stdin.close()
        else:
            owner.send_signal(signal.SIGINT if end == "SIGINT" else signal.SIGKILL)
        owner.wait(30)
    wait_until(lambda: not any(map(is_alive, started)), 20, "the end of every process")
    wait_until(lambda: not Path(told["folder"]).exists(), 10, "the removal of the folder")


def is_alive(process):
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_containers_end_with_a_server_that_was_killed(running_either_api):
    with (
        KubernetesApi(isolation=running_either_api.isolation) as api,
        config.new_client_from_config(str(api.kubeconfig)) as connected,
    ):
        client.CoreV1Api(connected).create_namespaced_pod(
            "default", make_pod("trap '' TERM HUP; echo ready; while true; do sleep 0.05; done")
        )
        api.wait_for(lambda pod: pod.log == ("ready",))
        containers = descendants(api.pid)
        assert len(containers) >= 2
        os.kill(api.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, containers)), 20, "the end of the containers")
        folder = api.folder
    assert not folder.exists()


def test_reset_leaves_no_pod(api):
    with config.new_client_from_config(str(api.kubeconfig)) as connected:
        core = client.CoreV1Api(connected)
        core.create_namespaced_pod("default", make_pod("while true; do sleep 0.05; done"))
        api.wait_for(lambda pod: "running" in pod.base_state)
        api.reset()
        assert [] == core.list_namespaced_pod("default").items
    assert [] == descendants(api.pid)
    assert [] == list((api.folder / "pods").iterdir())


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(RuntimeError, match="'nonsense' is not a valid Isolation"):
        KubernetesApi(isolation="nonsense").start()
