"""Nothing is hard-coded: exchanging sides inverts a measured ratio, and samples on each side of a claim give each verdict."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.claims.library import experiments, shipped
from advisor.claims.records import Claim, Context, Outcome, Setting
from advisor.claims.run import result_of, try_claim
from advisor.claims.verdict import band, judge_outcome

MEASURED = [claim for claim in shipped() if claim.premise is None]


def context(budget_s: float = 200.0) -> Context:
    def nothing(*_: Any) -> dict[str, Any]:
        raise AssertionError("an experiment that measures asks no cost model")

    return Context(
        threads=2, device="cpu", device_id="cpu0", end=time.monotonic() + budget_s, rounds=2, seed=11, estimate=nothing, recommend=nothing
    )


def claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "x", "statement": "A is twice as fast", "metric": "throughput_ratio", "low": 2.0, "high": 2.0, "unit": "ratio",
        "holds": "at_least", "tolerance": 0.15, "conditions": "", "source": "test", "tests": (),
    }  # fmt: skip
    return Claim(**{**fields, **changes})


def exchanged(parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "a": parameters["b"], "b": parameters["a"]}


#: What a busy machine may make of a ratio of one.
BUSY = 2.0
#: A product of 512 rows computes many times as fast as one of a single row, which waits for memory, whatever else the machine does.
GEMM = {"k": 2048, "n": 2048, "weight": "dynamic"}
#: Small samples are read many times as fast as large ones, whatever else the machine does.
SMALL = [{"label": "s", "samples": 256, "sample_bytes": 512}]
LARGE = [{"label": "s", "samples": 32, "sample_bytes": 2**20}]
REAL = [
    (
        "speed",
        {
            "benchmark": "gemm",
            "round_s": 1,
            "a": {"backend": "numpy", "dtype": "fp32", "m": 512},
            "b": {"backend": "numpy", "dtype": "fp64", "m": 1},
            "cases": [{"label": "a product", **GEMM}],
        },
    ),
    (
        "pair",
        {
            "a": {"child": "storage", "arguments": {"format": "files", "budget_s": 0.3, "cases": SMALL}},
            "b": {"child": "storage", "arguments": {"format": "files", "budget_s": 0.3, "cases": LARGE}},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), REAL, ids=[name for name, _ in REAL])
def test_exchanging_the_sides_of_a_real_experiment_inverts_its_ratio(name: str, parameters: dict[str, Any]) -> None:
    experiment = experiments()[name]
    open_ended = claim(low=1e-6, high=1e-6)  # always confirmed, so that no round is added
    there, back = (experiment.run(p, open_ended, context()) for p in (parameters, exchanged(parameters)))
    assert there.settings, there.lacks
    assert back.settings, back.lacks
    _, (forward,) = judge_outcome(claim(), there)
    _, (inverse,) = judge_outcome(claim(), back)
    # A is many times as fast: two independent measurements agree on that, however busy the machine made either.
    assert forward.value > BUSY > 1 / BUSY > inverse.value, (forward, inverse)
    if forward.low > 1 and not inverse.low <= 1 <= inverse.high:
        assert inverse.high < 1, (forward, inverse)


def around(claim: Claim, place: str) -> tuple[float, ...] | None:
    """Samples whose interval lies in a place: on the good side, on the bad side, over the edge; None where the claim has none such."""
    least, most = band(claim)
    edge, away = (least, 1 / 3) if claim.holds != "at_most" else (most, 3.0)
    if place == "holds":
        better = {"at_least": 1.05, "at_most": 0.95, "about": 1.0}[claim.holds]
        middle = better * math.sqrt(claim.low * claim.high)
        return (middle * 0.999, middle, middle * 1.001)
    if place == "fails":
        return (edge * away * 0.999, edge * away, edge * away * 1.001)
    beyond = edge * (1.05 if claim.holds == "at_most" else 0.95)
    return (beyond / 4, beyond, beyond * 4)


@pytest.mark.parametrize("one", MEASURED, ids=lambda claim: claim.id)
def test_synthetic_samples_on_each_side_give_each_verdict(one: Claim) -> None:
    """Every shipped claim can come out either way by its numbers alone."""

    def verdict(place: str) -> str:
        samples = around(one, place)
        assert samples is not None
        return judge_outcome(one, Outcome(settings=(Setting(label="s", samples=samples),), drift=0.01))[0]

    assert verdict("holds") == "confirmed"
    assert verdict("fails") == "refuted"
    assert verdict("edge") == "inconclusive"
    both = Outcome(settings=tuple(Setting(label=p, samples=around(one, p) or ()) for p in ("holds", "fails")), drift=0.01)
    assert judge_outcome(one, both)[0] == "depends"


@given(
    st.floats(0.05, 50), st.floats(0.0, 0.5), st.sampled_from(["at_least", "at_most", "about"]), st.floats(0.02, 50), st.floats(0.001, 0.05)
)
@settings(max_examples=200)
def test_a_verdict_follows_from_where_the_interval_lies(value: float, tolerance: float, holds: Any, number: float, spread: float) -> None:
    one = claim(low=value, high=value, tolerance=tolerance, holds=holds, unit="ms")
    samples = (number * (1 - spread), number, number * (1 + spread))
    verdict, (setting,) = judge_outcome(one, Outcome(settings=(Setting(label="s", samples=samples),), drift=0.01))
    least, most = band(one)
    outside = setting.high < least or setting.low > most
    assert (verdict == "refuted") == outside
    assert (verdict == "confirmed") == (not outside and least <= setting.value <= most)


def test_a_refuted_part_makes_a_confirmed_claim_depend() -> None:
    one = next(c for c in shipped() if c.id == "dynamic-quant-cpu")
    part = next(test.part for test in one.tests if test.part is not None)
    assert part is not None
    from advisor.claims.records import Finding

    def finding(part: Any, value: float) -> Finding:
        judged_by = replace(one, **part) if part else one
        verdict, found = judge_outcome(judged_by, Outcome(settings=(Setting(label="s", value=value, low=value, high=value),)))
        return Finding(experiment="quantity", basis="measured", verdict=verdict, settings=found, part=part)

    speed, kept, lost = finding(None, 2.5), finding(part, 0.002), finding(part, 0.2)
    assert result_of(one, (speed, kept), 1.0).verdict == "confirmed"
    assert result_of(one, (speed, lost), 1.0).verdict == "depends"
    assert "accuracy drop refuted" in result_of(one, (speed, lost), 1.0).reason


def test_a_missing_environment_is_named_with_the_command_that_builds_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path))
    one = next(c for c in shipped() if c.id == "dali-10x")
    result = try_claim(one, context(20.0))
    assert result.verdict == "not_testable"
    assert "advisor claims prepare --only data" in result.reason
