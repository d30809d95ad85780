"""How close the product's best reported numbers come to what this machine can do, measured by an independent harness.

    python benchmarks/limits                     9 interleaved pairs, about 10 minutes; needs a quiet machine
    python benchmarks/limits --pairs 2 --seconds 0.5

Memory bandwidth: the best that ``advisor bench bandwidth`` reports for the level "memory" against a STREAM triad in C (-O3
-march=native, plain and non-temporal stores). fp32 GEMM: the best over shapes that ``advisor bench gemm`` reports against direct calls
of OpenBLAS, oneDNN and MKL. A first look at every backend finds the candidates; then each pair measures them and the references one
after the other, in turns who begins, so that drift of the machine hits both alike. The bar is a median ratio of 0.95.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import references
from references import Absent

from advisor.bench.children import plan, run_round
from advisor.bench.records import BenchSpec
from microbench.conditions import cpus_in_use
from microbench.protocol import Case, Request
from microbench.stats import median_interval

SHAPES = ((1024, 1024, 1024), (2048, 2048, 2048), (512, 11008, 4096))
BAR = 0.95
#: Cases that are measured again in every pair: the best of the first look, and what may have been close to it in other backends.
CANDIDATES, OF_ONE_BACKEND = 4, 2


@dataclass(frozen=True)
class Side:
    """What one side of a pair found: the best rate, what gave it, and whether others disturbed it."""

    rate: float
    label: str
    contended: bool = False


def product_requests(benchmark: str, backends: tuple[str, ...] | None, seconds: float) -> list[Request]:
    """Return a Request a backend for what is compared; ``seconds`` a case."""
    spec = BenchSpec(benchmarks=(benchmark,), backends=backends, dtypes=("fp32",), shapes=SHAPES if benchmark == "gemm" else None)
    found = []
    for request in plan(spec.plan_document()):
        cases = tuple(case for case in request.cases if benchmark == "gemm" or case.params.get("level") == "memory")
        if cases and request.threads == cpus_in_use():
            found.append(replace(request, cases=cases, budget_s=max(2.0, seconds * len(cases))))
    return found


def measure(requests: list[Request], limit_s: float) -> list[tuple[str, Case, dict[str, Any]]]:
    """Return (backend, case, measurement) of everything that gave a number."""
    found = []
    for request in requests:
        options = {**request.options, "case_limit_s": max(60.0, limit_s)}
        for case, row in zip(request.cases, run_round(replace(request, options=options)), strict=True):
            if row["status"] in ("ok", "contended") and row["value"]:
                found.append((request.backend, case, dict(row)))
    return found


def candidates(benchmark: str, backends: tuple[str, ...] | None, seconds: float) -> list[Request]:
    """Return the Requests of a first look's best cases, at most CANDIDATES of them, OF_ONE_BACKEND of each."""
    requests = product_requests(benchmark, backends, seconds)
    ordered = sorted(measure(requests, 10 * seconds), key=lambda row: -row[2]["value"])
    place = {id(row): sum(other[0] == row[0] for other in ordered[:i]) for i, row in enumerate(ordered)}
    rows = [row for row in ordered if place[id(row)] < OF_ONE_BACKEND][:CANDIDATES]
    if not rows:
        sys.exit(f"no backend gives a number for {benchmark}")
    chosen = []
    for request in requests:
        cases = tuple(case for backend, case, _ in rows if backend == request.backend)
        if cases:
            chosen.append(replace(request, cases=cases, budget_s=max(2.0, seconds * len(cases))))
    return chosen


def ours(requests: list[Request], seconds: float) -> Side:
    """Return the best of the candidates, measured now."""
    rows = measure(requests, 10 * seconds)
    if not rows:
        sys.exit("the candidates give no number any more")
    backend, case, row = max(rows, key=lambda item: item[2]["value"])
    name = case.params.get("operation") or "x".join(str(case.params[key]) for key in "mnk")
    return Side(row["value"], f"{backend} {name}", row["status"] == "contended")


def bandwidth_reference(triad: references.Triad, array_bytes: int, seconds: float) -> Side:
    """Return the better variant of the triad."""
    rates = triad.measure(array_bytes, cpus_in_use(), seconds)
    name = max(rates, key=lambda key: rates[key])
    return Side(rates[name], f"C triad, {name}")


def gemm_reference(libraries: tuple[str, ...], seconds: float) -> Side:
    """Return the best library at its best shape."""
    rates = {(library, shape): references.product(library, shape, cpus_in_use(), seconds) for library in libraries for shape in SHAPES}
    library, shape = max(rates, key=lambda key: rates[key])
    return Side(rates[library, shape], f"{library} {'x'.join(map(str, shape))}")


def usable_libraries() -> tuple[str, ...]:
    """Return the libraries of this machine, and say which are absent."""
    found = []
    for library in references.LIBRARIES:
        try:
            references.product(library, (64, 64, 64), 1, 0.01)
        except Absent as error:
            print(f"  without {library}: {error}", file=sys.stderr)
        else:
            found.append(library)
    return tuple(found)


def pairs(name: str, count: int, product: Any, reference: Any) -> dict[str, Any]:
    """Return the ratios of ``count`` interleaved pairs with their median and its 95 % interval."""
    rows = []
    for number in range(count):
        first, second = (product, reference) if number % 2 == 0 else (reference, product)
        one, two = first(), second()
        mine, theirs = (one, two) if number % 2 == 0 else (two, one)
        rows.append((mine, theirs))
        print(f"  {name} {number + 1}/{count}: {mine.rate / 1e9:.1f} ({mine.label}) against {theirs.rate / 1e9:.1f} ({theirs.label}), "
              f"ratio {mine.rate / theirs.rate:.3f}{', contended' if mine.contended else ''}", file=sys.stderr, flush=True)  # fmt: skip
    middle, low, high = median_interval([mine.rate / theirs.rate for mine, theirs in rows])
    return {
        "pairs": [{"product": mine.rate, "by": mine.label, "reference": theirs.rate, "reference_by": theirs.label,
                   "contended": mine.contended} for mine, theirs in rows],
        "median_ratio": middle,
        "low": low,
        "high": high,
        "product_median": median(mine.rate for mine, _ in rows),
        "reference_median": median(theirs.rate for _, theirs in rows),
        "contended_pairs": sum(mine.contended for mine, _ in rows),
    }  # fmt: skip


def main() -> int:
    """Run the pairs; exit status 0 when both bars are met, else 1."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/limits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds for each case and each reference")
    parser.add_argument("--backends", help="comma-separated; default: all that are present")
    parser.add_argument("--only", choices=("bandwidth", "gemm"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    backends = tuple(options.backends.split(",")) if options.backends else None
    document: dict[str, Any] = {"threads": cpus_in_use()}
    if options.only != "gemm":
        requests = candidates("bandwidth", backends, options.seconds)
        array_bytes = int(requests[0].cases[0].params["bytes"]) // (
            2 if requests[0].cases[0].params["operation"] in ("copy", "scale") else 3
        )
        try:
            triad = references.Triad()
        except Absent as error:
            print(f"bandwidth is not compared: {error}", file=sys.stderr)
        else:
            document["bandwidth"] = pairs(
                "GB/s",
                options.pairs,
                lambda: ours(requests, options.seconds),
                lambda: bandwidth_reference(triad, array_bytes, options.seconds),
            )
    if options.only != "bandwidth":
        products = candidates("gemm", backends, options.seconds)
        libraries = usable_libraries()
        if libraries:
            document["gemm"] = pairs(
                "GFLOP/s", options.pairs, lambda: ours(products, options.seconds), lambda: gemm_reference(libraries, options.seconds)
            )
    met = all(part["median_ratio"] >= BAR for part in document.values() if isinstance(part, dict))
    if options.json:
        print(json.dumps(document))
    for name in ("bandwidth", "gemm"):
        if name in document and not options.json:
            part = document[name]
            verdict = "met" if part["median_ratio"] >= BAR else "missed"
            interval = f"{part['median_ratio']:.3f} ({part['low']:.3f} to {part['high']:.3f})"
            disturbed = f"{part['contended_pairs']} of {len(part['pairs'])} pairs contended"
            print(f"{name:10} {interval} of the best reference; bar {BAR}: {verdict}; {disturbed}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
