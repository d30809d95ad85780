"""What the three questions share: which backends, one run of the product, and a line of progress."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence

from advisor.bench.children import ask
from advisor.bench.records import BenchSpec
from advisor.bench.run import run_bench
from microbench.protocol import Measurement

USUAL = ("numpy", "torch", "onnxruntime", "openvino", "native")


def present(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return ``names``, or the usual backends that are installed here."""
    known = ask("--catalogue")["backends"]
    return tuple(names) if names else tuple(name for name in USUAL if known.get(name, {}).get("present"))


def key(m: Measurement) -> str:
    """Return what names a case from run to run."""
    return json.dumps([m.benchmark, m.backend, m.dtype, m.params], sort_keys=True)


def short(m: Measurement) -> str:
    """Return a case for people."""
    sizes = " ".join(str(value) for name, value in m.params.items() if name != "threads" and not isinstance(value, dict))
    return f"{m.benchmark} {m.backend} {m.dtype} {sizes}, {m.params['threads']} threads"


def run(spec: BenchSpec, what: str) -> dict[str, Measurement]:
    """Run the product once and return what it measured by case."""
    start = time.monotonic()
    found = {key(m): m for m in run_bench(spec)}
    good = sum(m.status == "ok" for m in found.values())
    say(f"{what}: {good} of {len(found)} good, {time.monotonic() - start:.0f} s")
    return found


def say(text: str) -> None:
    """Tell how far it is."""
    print(f"  {text}", file=sys.stderr, flush=True)


def verdict(name: str, value: float, bar: float, at_most: bool = False) -> tuple[bool, str]:
    """Return whether a bar is met, and the line that says so."""
    met = value <= bar if at_most else value >= bar
    return met, f"{name}: {value:.1%}, bar {'at most' if at_most else 'at least'} {bar:.0%}: {'met' if met else 'missed'}"


def median_of(values: Iterable[float]) -> float:
    """Return the median; NaN of nothing, which meets no bar."""
    from statistics import median

    kept = list(values)
    return median(kept) if kept else float("nan")
