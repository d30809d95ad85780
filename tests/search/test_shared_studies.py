"""Studies in a database: what is done is not done again after a kill, several workers share one, and the best of an answer are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest

from advisor.errors import DatabaseError
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platforms_for
from advisor.model.registry import model
from advisor.plan.records import Workload
from advisor.search.analytic import rank
from advisor.search.storage import keep, open_storage, studies_url
from advisor.search.study import run_study
from advisor.search.workers import FINISHED, open_study
from advisor.usecases.calibration import load_calibration

SCRIPT = Path(__file__).with_name("shared_study_worker.py")


def worker(url: str, log: Path, takes_s: float, number: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(SCRIPT), url, str(log), str(takes_s), str(number)])


def events(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def wait_for(log: Path, count: int, word: str) -> None:
    end = time.monotonic() + 60
    while sum(e[0] == word for e in events(log)) < count:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def test_after_a_kill_only_what_was_cut_short_is_measured_again(sqlite_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = worker(sqlite_url, log, 0.4)
    wait_for(log, 3, "end")
    wait_for(log, 4, "start")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    done = {e[1] for e in events(log) if e[0] == "end"}
    cut = {e[1] for e in events(log) if e[0] == "start"} - done
    assert len(cut) == 1
    assert worker(sqlite_url, log, 0.0).wait() == 0
    started = Counter(e[1] for e in events(log) if e[0] == "start")
    assert all(started[row] == 1 for row in done)
    assert all(started[row] == 2 for row in cut)
    assert ["others", str(len(done))] in [e[:2] for e in events(log)]
    study = optuna.load_study(study_name="shared", storage=studies_url(sqlite_url))
    assert [t.state.name for t in study.trials].count("FAIL") == 1
    assert FINISHED in study.user_attrs


def test_two_workers_share_a_study_and_no_plan_is_measured_twice(url: str, tmp_path: Path) -> None:
    open_storage(url)  # the tables are there before both want to make them
    log = tmp_path / "log"
    both = [worker(url, log, 0.15, number) for number in range(2)]
    assert [p.wait(timeout=90) for p in both] == [0, 0]
    started = Counter(e[1] for e in events(log) if e[0] == "start")
    by_worker = Counter(e[2] for e in events(log) if e[0] == "end")
    assert max(started.values()) == 1
    assert len(by_worker) == 2
    bests = {e[1] for e in events(log) if e[0] == "best"}
    study = optuna.load_study(study_name="shared", storage=studies_url(url))
    assert str(min((t for t in study.trials if t.value), key=lambda t: t.value or 9.0).user_attrs["plan"]["micro_batch"] - 1) in bests


def test_a_finished_study_is_left_alone_and_the_next_is_another(sqlite_url: str) -> None:
    first = open_study(sqlite_url, "question")
    assert open_study(sqlite_url, "question").study_name == "question"
    first.set_user_attr(FINISHED, "2026-01-01T00:00:00Z")
    assert open_study(sqlite_url, "question").study_name == "question #2"


def test_the_best_of_an_analytic_study_are_kept_once_and_read_by_optuna(url: str) -> None:
    workload = Workload(task="train", seq_len=1024, global_batch=64)
    ranking = rank(model("gpt-1.3b"), workload, platforms_for(parse_spec("8xv100-sxm2-32gb"))[0], load_calibration())
    study, best = run_study(ranking, [int(r) for r in ranking.order[:30]], seed=0)
    assert keep(study, "a question", url, 20)
    assert not keep(study, "a question", url, 20)
    storage = open_storage(url)  # Optuna's own migrations accept the tables
    kept = optuna.load_study(study_name="a question", storage=storage)
    assert len(kept.trials) == 20
    assert best is not None
    first = kept.trials[0]
    assert first.user_attrs["plan"] == ranking.plans.plan(best).to_dict()
    assert first.values == study.trials[0].values
    assert first.params == study.trials[0].params
    assert sum(first.user_attrs["memory_parts_bytes"].values()) == pytest.approx(ranking.priced.memory_bytes[best])
    assert first.user_attrs["constraints"]["memory_bytes"] <= 0
    assert optuna.create_study(study_name="another", storage=storage).trials == []


def test_studies_that_cannot_be_written_are_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "results.studies.db"
    file.write_text("no database at all, but a text")
    with pytest.raises(DatabaseError, match=r"results\.studies\.db"):
        open_storage(f"sqlite:///{tmp_path / 'results.db'}")
