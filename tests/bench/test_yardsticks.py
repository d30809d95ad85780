"""The yardsticks measure what they say: a compiled triad, libraries that compute the right product, pairs and ratios."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from microbench.protocol import Measurement

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports a module of a yardstick's folder, as ``python benchmarks/NAME`` finds it."""

    def import_one(folder: str, name: str):
        monkeypatch.syspath_prepend(str(BENCHMARKS / folder))
        path = BENCHMARKS / folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"yardstick_{folder}_{name.strip('_')}", path)
        module = importlib.util.module_from_spec(spec)
        # A dataclass looks its module up by name.
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    yield import_one
    for name in ("references", "common", "ratios", "coverage_later", "load_beside"):
        sys.modules.pop(name, None)


def test_the_triad_is_compiled_checked_and_timed_in_both_variants(load):
    references = load("limits", "references")
    try:
        triad = references.Triad()
    except references.Absent as error:
        pytest.skip(str(error))
    rates = triad.measure(4 << 20, 2, 0.01)
    assert set(rates) == {"plain", "non-temporal"}
    assert all(1e6 < rate < 1e13 for rate in rates.values())


@pytest.mark.parametrize("library", ["openblas", "onednn", "mkl"])
def test_direct_calls_give_the_right_product_or_say_that_the_library_is_absent(load, library):
    references = load("limits", "references")
    try:
        rate = references.product(library, (96, 64, 128), 1, 0.01)
    except references.Absent as error:
        if str(error) == "it died":
            raise
        pytest.skip(str(error))
    assert rate > 1e6


def test_pairs_take_turns_and_their_median_ratio_has_an_interval(load):
    limits = load("limits", "__main__")
    order = []

    def side(name, rates):
        rates = iter(rates)

        def measured():
            order.append(name)
            return limits.Side(next(rates), name, False)

        return measured

    found = limits.pairs("unit", 3, side("product", [8.0, 9.0, 10.0]), side("reference", [10.0] * 3))
    assert order == ["product", "reference", "reference", "product", "product", "reference"]
    assert (found["low"], found["median_ratio"], found["high"]) == pytest.approx((0.8, 0.9, 1.0))


def measurement(backend, **params):
    return Measurement(
        benchmark="gemm", backend=backend, backend_version="1", device="cpu0", dtype="fp32", params={**params, "threads": 2},
        metric="flops_per_s", unit="FLOP/s", value=1e9, low=9e8, high=1.1e9, run_low=1e9, run_high=1e9, samples=5, seconds=0.1, status="ok",
    )  # fmt: skip


def test_pairs_of_ratios_differ_in_the_variant_or_the_backend_alone(load):
    ratios = load("trust", "ratios")
    rows = [
        measurement("torch", m=8, weight="constant"),
        measurement("torch", m=8, weight="dynamic"),
        measurement("numpy", m=8, weight="dynamic"),
        measurement("numpy", m=9, weight="dynamic"),
    ]
    found = ratios.pairs({str(i): row for i, row in enumerate(rows)})
    assert found == [("0", "1"), ("1", "2")]
