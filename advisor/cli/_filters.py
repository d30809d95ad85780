"""Options that choose measurements, of every command that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

#: More rows than any database of measurements holds.
MOST = 1_000_000_000
_FILTERS = (
    click.option("--benchmark", metavar="NAME,…", help="gemm, attention, bandwidth, training, inference …"),
    click.option("--backend", metavar="NAME,…", help="The framework or library that ran it."),
    click.option("--device", metavar="NAME", help="A device's id, its profile, or a part of its name (a100, V100)."),
    click.option("--dtype", metavar="NAME,…", help="fp32, bf16, fp16, fp8 …"),
    click.option("--model", metavar="NAME", help="A part of a model's name (resnet-50)."),
    click.option("--machine", metavar="ID", help="A machine's fingerprint, or the beginning of it."),
    click.option("--run", "run", metavar="ID", help="A run's id, or the beginning of it."),
    click.option("--origin", metavar="NAME,…", help="local, shared, published."),
    click.option("--since", metavar="WHEN", help="A date (2026-01-31) or a span before now (12h, 7d, 4w)."),
    click.option("--status", metavar="NAME,…", help="ok, failed, unsupported, timeout, wrong_result, throttled, contended, suspect."),
    click.option("--metric", metavar="NAME,…", help="flops_per_s, bytes_per_s, seconds, samples_per_s …"),
)

GROUP_KEYS = "benchmark, backend, version, dtype, model, device, class, machine, origin, month, day, or params.NAME (params.n_devices)."


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose measurements."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function
