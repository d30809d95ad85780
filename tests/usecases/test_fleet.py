"""A fleet on several Ray nodes of this machine; and the script for Slurm, run by bash with a stand-in for what it calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.errors import EnvironmentLacks, UsageError
from advisor.results.store import Store
from advisor.usecases.fleet import FleetOptions, fleet
from advisor.usecases.fleet_slurm import slurm_script


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Start a cluster of three Ray nodes; its workers keep their data in the test's own folder."""
    pytest.importorskip("ray", reason="a fleet is tested where ray is installed: pip install 'hw-advisor[ray]'")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path / "fleet-home"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # A dead node is noticed within seconds, so that the test need not wait for it.
    monkeypatch.setenv("RAY_health_check_initial_delay_ms", "500")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
    for _ in range(2):
        made.add_node(num_cpus=1, object_store_memory=80 << 20)
    yield made
    made.shutdown()


def test_every_node_has_its_turn(cluster: Any, sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", sqlite_url, "fleet", "probe", "--ray", cluster.address, "--json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert [node["state"] for node in document["nodes"]] == ["done"] * 3
    assert len({node["node"] for node in document["nodes"]}) == 3
    assert "3 of 3" in printed.err
    with Store.open(sqlite_url) as store:
        # All are this one machine, which is stored once.
        assert store.latest_machine(document["nodes"][0]["machine"]) is not None
        assert store.query("SELECT count(*) FROM machines")[1] == [(1,)]
    words = ["--", "gemm", "--backend", "numpy", "--dtype", "fp32", "--quick", "--budget", "5"]
    assert run(["--db", sqlite_url, "fleet", "bench", "--ray", cluster.address, *words]) == 0
    assert "3 of 3 nodes measured" in capsys.readouterr().out
    with Store.open(sqlite_url) as store:
        rows = store.measurements()  # Three nodes on one machine disturb each other: "contended" is right.
        assert {(row["benchmark"], row["backend"], row["origin"]) for row in rows} == {("gemm", "numpy", "shared")}
        assert len({row["run_id"] for row in rows}) == 3


def kill_after_start(cluster: Any, victim: Any, said: list[str]) -> None:
    """Kill a node when the fleet has begun."""
    while not said:
        time.sleep(0.05)
    time.sleep(0.5)
    cluster.remove_node(victim, allow_graceful=False)


def test_a_node_that_dies_gets_another_turn_when_it_is_back(cluster: Any, sqlite_url: str) -> None:
    said: list[str] = []
    victim = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    killer = threading.Thread(target=kill_after_start, args=(cluster, victim, said))

    def say(text: str) -> None:
        said.append(text)
        if "died" in text:
            cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    killer.start()
    options = {"benchmarks": ("gemm",), "backends": ["numpy"], "dtypes": ["fp32"], "quick": True, "budget_s": 8.0}
    patience = FleetOptions(retries=1, timeout_s=90.0, wait_s=60.0)
    document = fleet("bench", cluster.address, database_url=sqlite_url, options=options, patience=patience, say=say)
    killer.join()
    assert [node["state"] for node in document["nodes"]] == ["done"] * 4, (document["nodes"], said)
    assert sorted(node["attempts"] for node in document["nodes"]) == [1, 1, 1, 2], said
    assert any("died" in text for text in said)
    with Store.open(sqlite_url) as store:
        assert len({row["run_id"] for row in store.measurements()}) == 4


def test_a_node_that_stays_away_is_reported(cluster: Any, sqlite_url: str) -> None:
    said: list[str] = []
    victim = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    killer = threading.Thread(target=kill_after_start, args=(cluster, victim, said))
    killer.start()
    options = {"benchmarks": ("gemm",), "backends": ["numpy"], "dtypes": ["fp32"], "quick": True, "budget_s": 8.0}
    patience = FleetOptions(retries=1, timeout_s=90.0, wait_s=2.0)
    document = fleet("bench", cluster.address, database_url=sqlite_url, options=options, patience=patience, say=said.append)
    killer.join()
    assert sorted(node["state"] for node in document["nodes"]) == ["done", "done", "done", "failed"]
    assert [node["reason"] for node in document["nodes"] if node["state"] == "failed"] == ["the node died"]


def test_a_failure_of_the_nodes_own_is_not_tried_again(cluster: Any, sqlite_url: str) -> None:
    document = fleet("bench", cluster.address, database_url=sqlite_url, options={"backends": ["no-such-backend"]})
    assert {(node["state"], node["attempts"]) for node in document["nodes"]} == {("failed", 1)}
    assert all(node["reason"].startswith("error[UNKNOWN-BACKEND]") for node in document["nodes"])


def test_wrong_use(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):
        fleet("dance", "auto", database_url=sqlite_url)
    assert run(["--db", sqlite_url, "fleet", "probe"]) == 2
    assert run(["--db", sqlite_url, "fleet", "bench", "--slurm"]) == 2
    assert run(["--db", sqlite_url, "fleet", "bench", "--slurm", "--nodes", "2", "--", "--no-such"]) == 2
    assert run(["--db", sqlite_url, "fleet", "bench", "--slurm", "--nodes", "2", "--", "--no-save"]) == 2
    assert capsys.readouterr().err.count("error[") == 4


def test_no_ray_and_no_cluster_are_named(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvironmentLacks) as caught:
        fleet("probe", "127.0.0.1:1", database_url=sqlite_url)
    assert "hw-advisor[ray]" in caught.value.line()


STAND_IN = """#!/bin/bash
echo "$SLURMD_NODENAME $*" >> "$CALLS"
[ "$3" = results ] && exit "${PUSH_EXIT:-0}"
touch "${2#sqlite:///}"
"""


def slurm_task(folder: Path, script: str, node: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "advisor").write_text(STAND_IN)
    (folder / "bin" / "sleep").write_text("#!/bin/bash\nexec /bin/sleep 0.02\n")
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)
    known = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "CALLS": str(folder / "calls"), "HOME": str(folder)}
    slurm = {"SLURM_ARRAY_JOB_ID": "7", "SLURMD_NODENAME": node, "SLURM_SUBMIT_DIR": str(folder)}
    command = ["bash", "-c", script]
    return subprocess.Popen(command, env=known | slurm | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_slurm_script_measures_each_node_once_and_pushes(tmp_path: Path) -> None:
    script = slurm_script("bench", count=2, database_url="postgresql+psycopg://team@db/results", arguments=("gemm", "--quick"))
    first, second = (slurm_task(tmp_path, script, node) for node in ("a", "b"))
    assert [first.wait(60), second.wait(60)] == [0, 0], (first.stdout, second.stdout)
    again = slurm_task(tmp_path, script, "a")
    assert again.wait(60) == 0
    assert "had its turn" in str(again.communicate()[0])
    calls = (tmp_path / "calls").read_text().splitlines()
    for node in "ab":
        mine = [line.split(" ", 1)[1].split(" ", 2)[2] for line in calls if line.startswith(f"{node} ")]
        assert mine == ["bench gemm --quick", "results push"]
    assert "#SBATCH --array=1-2\n" in script
    assert "--exclusive" in script


def test_what_a_slurm_task_cannot_send_is_kept(tmp_path: Path) -> None:
    script = slurm_script("probe", count=1, database_url="sqlite:////shared/team.db")
    task = slurm_task(tmp_path, script, "a", PUSH_EXIT="4")
    assert task.wait(60) == 1
    assert (tmp_path / "advisor-probe-7" / "a.db").exists()
    assert "results push" in str(task.communicate()[0])


def test_a_password_is_not_written_into_the_script() -> None:
    script = slurm_script("bench", count=3, database_url="postgresql+psycopg://team:secret@db/results")
    assert "secret" not in script
    assert "ADVISOR_PUSH_TO:?" in script
