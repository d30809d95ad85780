"""A backend that crashes, hangs, lies or eats memory costs its own measurement and nothing else."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.bench.children import plan, run_round
from advisor.bench.records import BenchSpec
from advisor.bench.run import run_bench
from microbench.protocol import Case, Request

TOY = str(Path(__file__).with_name("toy.py"))
ENDS = {
    101: ("failed", "SIGKILL"),
    102: ("failed", "SIGABRT"),
    103: ("timeout", "deadline"),
    104: ("wrong_result", "relative error"),
    105: ("wrong_result", "not written"),
    106: ("failed", "memory"),
    107: ("failed", "ZeroDivisionError"),
    108: ("failed", "exit status 7"),
    109: ("unsupported", "109 rows"),
    110: ("timeout", "deadline"),
    111: ("failed", "memory"),
    112: ("failed", "SIGSEGV"),
    113: ("wrong_result", "relative error"),
}


def gemm(m: int) -> Case:
    return Case(benchmark="gemm", dtype="fp32", params={"m": m, "n": 32, "k": 32})


def test_each_bad_end_has_its_status_and_the_rest_goes_on():
    cases = [gemm(m) for pair in zip(ENDS, range(20, 20 + len(ENDS)), strict=True) for m in pair]
    options = {"max_samples": 3, "case_limit_s": 4.0}
    request = Request(backend=TOY, device="cpu", threads=1, cases=tuple(cases), budget_s=60.0, options=options)
    seen = []
    rows = run_round(request, on_result=lambda index, row: seen.append(index), memory_limit_bytes=512 << 20)
    assert seen == list(range(len(cases)))
    for case, row in zip(cases, rows, strict=True):
        assert row["params"]["m"] == case.params["m"]
        if case.params["m"] in ENDS:
            status, part = ENDS[case.params["m"]]
            assert (row["status"], part in row["reason"]) == (status, True), row
            assert row["value"] is None
        else:
            assert row["status"] in ("ok", "contended"), row


def test_variants_take_turns_and_one_that_dies_leaves_the_look_at_the_others():
    names = ("one", "two", "deadly", "three")
    cases = tuple(Case(benchmark="gemm", dtype="fp32", params={"m": 40, "n": 32, "k": 32, "weight": name}) for name in names)
    seen = []
    request = Request(backend=TOY, device="cpu", threads=1, cases=cases, budget_s=8.0)
    rows = run_round(request, on_result=lambda index, row: seen.append((index, row["samples"])))
    assert [row["params"]["weight"] for row in rows] == list(names)
    assert [row["status"] == "failed" for row in rows] == [False, False, True, False], rows
    assert all(row["samples"] >= 3 and "case" not in row for row in rows if row["status"] != "failed")
    seen.clear()
    rows = run_round(replace(request, cases=cases[:2], budget_s=4.0), on_result=lambda index, row: seen.append((index, row["samples"])))
    assert [index for index, _ in seen] == [0, 1, 0, 1]
    assert [row["samples"] for row in rows] == [samples for _, samples in seen[2:]]
    assert all(late > early for (_, early), (_, late) in zip(seen[:2], seen[2:], strict=True))


def test_a_backend_that_hangs_while_it_opens_is_a_timeout(tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(Path(TOY).read_text().replace("        pass\n", "        time.sleep(1000)\n", 1))
    request = Request(backend=str(slow), device="cpu", threads=1, cases=(gemm(8), gemm(9)), budget_s=5.0, options={"open_limit_s": 2.0})
    rows = run_round(request)
    assert [row["status"] for row in rows] == ["timeout"] * 2, rows


def test_what_a_case_leaves_running_ends_with_its_round(tmp_path):
    forking = tmp_path / "forking.py"
    mark = tmp_path / "pid"
    child = f"import subprocess; open({str(mark)!r}, 'w').write(str(subprocess.Popen(['sleep', '1000']).pid))"
    forking.write_text(Path(TOY).read_text().replace("        pass\n", f"        {child}\n", 1))
    (row,) = run_round(Request(backend=str(forking), device="cpu", threads=1, cases=(gemm(8),), budget_s=5.0, options={"max_samples": 3}))
    assert row["status"] in ("ok", "contended"), row
    deadline = time.monotonic() + 10
    while alive(int(mark.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(int(mark.read_text()))


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_backend_that_does_not_open_fails_once_for_all(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import os\nos.kill(os.getpid(), 11)\n")
    rows = run_round(Request(backend=str(broken), device="cpu", threads=1, cases=(gemm(8), gemm(9)), budget_s=5.0))
    assert [row["status"] for row in rows] == ["failed"] * 2
    assert "SIGSEGV" in rows[0]["reason"]
    missing = tmp_path / "missing.py"
    missing.write_text(
        Path(TOY).read_text().replace('module="numpy"', 'module="no_such_module"').replace("nothing to install", "pip install no-such")
    )
    (row,) = run_round(Request(backend=str(missing), device="cpu", threads=1, cases=(gemm(8),), budget_s=5.0))
    assert row["status"] == "unsupported"
    assert "pip install no-such" in row["reason"]


def test_rounds_are_combined_and_reported_one_by_one():
    spec = BenchSpec(benchmarks=("gemm",), backends=(TOY,), shapes=((30, 32, 32), (104, 32, 32)), quick=True, budget_s=8.0, threads=1)
    reported = []
    steps = []
    result = run_bench(spec, reported.append, steps.append)
    assert result == reported
    assert [m.status for m in result][1] == "wrong_result"
    good = result[0]
    assert good.status in ("ok", "contended")
    if good.status == "ok":
        # A round that others disturbed all through is left out.
        assert good.conditions["rounds"] == len(good.conditions["round_values"]) in (1, 2)
        assert len(good.conditions["round_samples"]) == 2
        assert good.low <= good.run_low <= good.value <= good.run_high <= good.high
    assert [step.done for step in steps] == list(range(steps[0].total))


def test_the_plan_orders_cases_cheapest_first_and_names_what_is_unknown():
    from advisor.errors import UsageError

    spec = BenchSpec(benchmarks=("gemm", "bandwidth"), backends=("numpy",), quick=True, threads=2)
    requests = plan(spec.plan_document())
    assert [r.threads for r in requests] == [2, 1]
    assert {c.benchmark for c in requests[0].cases} == {"gemm", "bandwidth"}
    gemms = [c.params["m"] * c.params["n"] * c.params["k"] for c in requests[0].cases if c.benchmark == "gemm"]
    assert gemms == sorted(gemms)
    with pytest.raises(UsageError, match="no_such"):
        plan(dataclasses.replace(spec, backends=("no_such",)).plan_document())


def test_a_killed_bench_keeps_what_it_stored_and_the_next_one_works(tmp_path):
    database = tmp_path / "a.db"
    command = [sys.executable, "-c", "import sys; from advisor.cli.main import main; main(sys.argv[1:])"]
    arguments = ["bench", "gemm", "--backend", f"{TOY},numpy", "--quick", "--budget", "6", "--dtype", "fp32", "--shapes"]
    shapes = tmp_path / "shapes.json"
    shapes.write_text("[[16, 16, 16], [24, 24, 24]]")
    env = {**os.environ, "ADVISOR_DB": f"sqlite:///{database}"}
    first = subprocess.Popen([*command, *arguments, str(shapes)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stored = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and first.poll() is None and stored == 0:
        time.sleep(0.05)
        stored = count(database)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert 0 < stored <= count(database)
    kept = count(database)
    again = subprocess.run([*command, *arguments, str(shapes), "--json"], env=env, capture_output=True, text=True, timeout=120)
    assert again.returncode in (0, 3), again.stderr
    assert count(database) == kept + 4


def count(database: Path) -> int:
    if not database.is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM measurements").fetchone()[0]
    except sqlite3.Error:
        return 0
