"""Answers against spaces that are enumerated without the search; `python benchmarks/exhaustive` runs all of the cases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.exhaustive.cases import CASES, QUICK, name
from benchmarks.exhaustive.check import check


@pytest.mark.parametrize("number", QUICK, ids=lambda number: name(CASES[number]))
def test_an_answer_is_the_optimum_of_all_that_is_legal(number: int) -> None:
    found = check(CASES[number])
    assert found.missing >= 0
    assert found.right, found


def test_the_cases_reach_from_one_device_to_four_thousand() -> None:
    assert len(CASES) == 24
    assert len({name(case) for case in CASES}) == 24
    assert {case.objective for case in CASES} == {"throughput", "latency", "energy", "memory", "cost"}
    assert any(case.hardware.startswith("4096x") for case in CASES)
