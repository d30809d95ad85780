"""What others do to the machine while we measure is noticed: crowded samples are not clean, crowded runs are contended."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microbench import conditions
from microbench.protocol import Case, Request
from microbench.sampling import MIN_SAMPLE_S, Sampler, alternate, time_kernel
from microbench.timing import Sample, Timing

share = st.one_of(st.none(), st.floats(0.0, 1.0))
TRIAD = {"operation": "triad", "level": "L2", "bytes": 3 * 131072}


@pytest.mark.parametrize(
    ("wait", "foreign", "clean"),
    [
        (0.0, 0.0, True),
        (0.0, 0.25, True),  # a load of half a core beside us, seen between two of its bursts
        (0.5, 0.01, True),  # worker threads that queue on each other on an idle machine
        (0.5, 0.25, False),
        (0.0, 0.67, False),  # so short that it fits between two time slices of a crowded machine
        (0.0, None, True),
        (None, None, False),
        (None, 0.01, True),
        (None, 0.25, False),
    ],
)
def test_a_sample_is_clean_when_nothing_disturbed_it(wait, foreign, clean):
    assert Sample(1e-3, wait, foreign).clean is clean


def timing(*samples, windows=()):
    return Timing([Sample(*sample) for sample in samples], 1.0, 1, True, list(windows))


def test_a_crowded_run_is_contended_however_soon_it_ended():
    crowded = timing((1e-3, 0.9, 0.87), (9e-3, 1.0, 0.93), (1e-3, 0.9, 0.9), windows=[0.87, 0.93, 0.9])
    assert crowded.contended
    # Short samples that never waited, in a machine that others use: their caches are cold, their memory is shared.
    assert timing(*[(15e-6, 0.0, 0.67)] * 200, windows=[0.67] * 5).contended
    # Others used little of the machine, and yet the least disturbed samples waited for a third of their time.
    assert timing(*[(1e-3, 0.6, 0.35)] * 9, windows=[0.35]).contended


def test_short_bursts_that_hit_every_sample_leave_the_least_disturbed_ones():
    # Half a core beside us in bursts shorter than a sample: none is clean, the shortest waits are nearest to the truth.
    bursts = timing(*[(10e-3 + 0.1e-3 * i, 0.1 + 0.005 * i, 0.25) for i in range(40)], windows=[0.25] * 5)
    assert not bursts.contended
    assert bursts.estimate()[0] < 10.3e-3


def test_a_busy_machine_with_clean_samples_still_gives_a_number():
    busy = timing(*[(1e-3, 0.0, 0.25)] * 3, *[(5e-3, 0.8, 0.25)] * 20, windows=[0.25] * 4)
    assert not busy.contended
    assert busy.estimate()[0] == 1e-3
    assert busy.conditions()["used"] == "111" + "0" * 20
    # Memory is shared with whoever is on another core: samples with nobody there come first.
    mixed = timing(*[(2e-3, 0.0, 0.25)] * 9, *[(1e-3, 0.0, 0.0)] * 3, windows=[0.25, 0.0, 0.0, 0.0])
    assert mixed.estimate()[0] == 1e-3
    # On a machine that others use throughout, a window only seems quiet: the tick of its clock is coarse.
    seeming = timing(*[(9e-3, 0.5, 0.02)] * 9, *[(1e-3, 0.0, 0.3)] * 4, windows=[0.02, 0.3, 0.3, 0.3])
    assert seeming.estimate()[0] == 1e-3
    assert seeming.conditions()["quiet_samples"] == 0
    assert seeming.conditions()["clean_samples"] == 4
    slightly = timing(*[(1e-3, 0.1, 0.1)] * 9, windows=[0.1])
    assert not slightly.contended
    assert slightly.conditions()["clean_samples"] == 0


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), share, share), min_size=1, max_size=30))
def test_the_estimate_rests_on_the_samples_it_names(samples):
    t = timing(*samples)
    used = [s.seconds for s, digit in zip(t.samples, t.conditions()["used"], strict=True) if digit == "1"]
    assert sorted(used) == sorted(t.used())
    assert len(used) >= min(3, len(samples))
    if len(t.clean()) >= 3:
        assert all(s.clean for s, digit in zip(t.samples, t.conditions()["used"], strict=True) if digit == "1")


def test_a_loop_that_was_calibrated_on_disturbed_calls_grows_again():
    calls = 0

    def kernel() -> None:
        nonlocal calls
        calls += 1
        end = time.perf_counter() + (3e-3 if calls <= 5 else 20e-6)
        while time.perf_counter() < end:
            pass

    found = time_kernel(kernel, budget_s=0.3, limit_s=3.0, threads=1, max_samples=5)
    assert found.inner_loop >= 10
    assert all(s.seconds * found.inner_loop >= MIN_SAMPLE_S / 2 for s in found.samples)


def test_a_single_thread_goes_where_nobody_is():
    assert conditions.idlest({0, 1, 2}, {0: 5, 1: 5, 2: 5}, {0: 9, 1: 15, 2: 6}) == 1
    assert conditions.idlest({0, 1}, {0: 5, 1: 5}, {0: 15, 1: 15}) == 1
    assert conditions.idlest({0, 3}, {}, {}) == 3
    ticks = conditions.idle_ticks()
    assert not ticks or set(ticks) >= os.sched_getaffinity(0)


def test_kernels_that_are_compared_take_turns_to_the_end():
    called = []

    def kernel(name, seconds):
        def run() -> None:
            called.append(name)
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass

        return Sampler(run, threads=1)

    samplers = [kernel("fast", 1e-3), kernel("slow", 3e-3)]
    for sampler in samplers:
        sampler.prepare(0.1, 2.0)
    called.clear()
    alternate(samplers, time.perf_counter() + 0.9, 0.0)
    turns = [name for name, _ in itertools.groupby(called)]
    assert len(turns) >= 2
    assert turns == [("fast", "slow")[i % 2] for i in range(len(turns))]
    for sampler in samplers:
        assert all(s.seconds > 0.9e-3 for s in sampler.finish().samples)


def run(case, hogs):
    request = Request(backend="numpy", device="cpu", threads=conditions.cpus_in_use(), cases=(case,), budget_s=2.0, quick=True)
    burn = f"import os, time\nend = time.time() + 60\nwhile time.time() < end and os.getppid() == {os.getpid()}: pass"
    others = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(hogs)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "microbench"], input=json.dumps(dataclasses.asdict(request)), capture_output=True, text=True, timeout=120
        )
    finally:
        for other in others:
            other.kill()
            other.wait()
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert row.pop("case") == 0
    return row


def test_a_continuous_load_on_every_cpu_makes_the_result_contended():
    row = run(Case(benchmark="bandwidth", dtype="fp32", params=TRIAD), 2 * conditions.cpus_in_use())
    assert row["status"] == "contended", row
    assert row["conditions"]["foreign_share"] > 0.4
    assert "others" in row["reason"]
    assert len(row["conditions"]["used"]) == row["samples"] == len(row["sample_seconds"])
