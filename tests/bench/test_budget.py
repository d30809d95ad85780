"""The time of a bench is dealt out so that it ends when it should, whatever its children make of their shares."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.bench.records import FULL_S, QUICK_S, BenchSpec
from advisor.bench.run import LEAST_CHILD_S, OUT_OF_TIME, Job, run_rounds
from microbench.protocol import Case, Request
from microbench.runner import Round

CHILD_S = 3.0


def jobs_of(counts):
    return [
        Job(Request(
            backend=f"b{number}", device="cpu", threads=2, budget_s=0.0,
            cases=tuple(Case(benchmark="gemm", dtype="fp32", params={"m": m}) for m in range(count)),
        ))
        for number, count in enumerate(counts)
    ]  # fmt: skip


def simulate(spec, counts, use):
    """Return (seconds on the clock, jobs, progress): children that take ``use(budget, round)`` seconds and reach all their cases."""
    clock, steps, finished = [0.0], [], []

    def run_one(spec, job, cases, budget, number):
        assert budget >= LEAST_CHILD_S
        clock[0] += use(budget, number)
        for case in cases:
            job.lines.setdefault(job.key(case), []).append({"status": "ok"})

    jobs = jobs_of(counts)
    run_rounds(spec, jobs, finished.append, steps.append, run_one, lambda: clock[0])
    assert sorted(map(id, finished)) == sorted(map(id, jobs))
    return clock[0], jobs, steps


counts = st.lists(st.integers(1, 40), min_size=1, max_size=20)


@given(counts, st.integers(1, 4), st.floats(60.0, 2000.0), st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_children_that_keep_to_their_share_end_in_time(counts, rounds, total, part):
    spec = BenchSpec(benchmarks=("gemm",), budget_s=total, rounds=rounds)
    seconds, jobs, steps = simulate(spec, counts, lambda budget, number: budget * part)
    assert seconds <= total + LEAST_CHILD_S * len(counts) * rounds
    assert [step.done for step in steps] == list(range(rounds * len(counts)))
    left = [step.seconds_left for step in steps]
    assert left == sorted(left, reverse=True)
    if total > LEAST_CHILD_S * len(counts) * rounds:
        # Every case is measured in every round.
        assert all(len(lines) == rounds for job in jobs for lines in job.lines.values())


@given(counts, st.floats(1.0, 1.5))
@settings(max_examples=40, deadline=None)
def test_children_that_overrun_are_paid_for_by_those_after_them(counts, over):
    spec = BenchSpec(benchmarks=("gemm",), budget_s=600.0, rounds=3)
    seconds, _, _ = simulate(spec, counts, lambda budget, number: budget * over + CHILD_S)
    # The last child of all may overrun; the others' excess has been taken off its share.
    assert seconds <= 600.0 * (over if len(counts) == 1 else 1.25) + (CHILD_S + LEAST_CHILD_S) * len(counts)


def test_a_child_that_eats_everything_leaves_the_others_a_first_look():
    spec = BenchSpec(benchmarks=("gemm",), budget_s=60.0, rounds=3)
    seconds, jobs, _ = simulate(spec, [10] * 5, lambda budget, number: 100.0 if number == 0 and budget > 5 else budget)
    assert all(job.lines for job in jobs)
    assert seconds <= 100.0 + 60.0


def test_cases_that_were_not_reached_come_first_in_the_next_round():
    (job,) = jobs_of([4])
    cases = job.request.cases
    for case, line in zip(cases, ({"status": "ok"}, {"status": "unsupported"}, {"status": "timeout", "reason": OUT_OF_TIME}), strict=False):
        job.lines[job.key(case)] = [line]
    assert job.pending() == [cases[2], cases[3], cases[0]]


def test_a_quick_bench_of_everything_is_given_less_than_eight_minutes():
    from advisor.bench.children import ask

    everything = tuple(ask("--catalogue")["benchmarks"])
    assert BenchSpec(benchmarks=everything, quick=True).total_s <= 420
    assert BenchSpec(benchmarks=("gemm",), quick=True).total_s == pytest.approx(QUICK_S)
    assert BenchSpec(benchmarks=("gemm",)).total_s == pytest.approx(FULL_S)
    assert BenchSpec(benchmarks=everything, budget_s=30.0).total_s == pytest.approx(30.0)


def test_what_takes_long_to_make_ready_is_given_more_of_its_childs_time():
    def share_of(names):
        cases = tuple(Case(benchmark=name, dtype="fp32", params={}) for name in names)
        request = Request(backend="numpy", device="cpu", threads=1, budget_s=10.0, cases=cases)
        round_ = Round(request, None, None, 0.0, lambda index, measurement: None)
        return [round_.share(i, 10.0) for i in range(len(names))]

    first, _, last = share_of(["gemm", "gemm", "model"])
    assert first == pytest.approx(10.0 / 8)
    assert last == pytest.approx(10.0)
    assert share_of(["model", "gemm", "gemm"])[0] == pytest.approx(10.0 * 6 / 8)
