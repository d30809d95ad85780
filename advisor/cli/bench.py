"""advisor bench."""

from __future__ import annotations

import sys
from typing import Any

import click

from advisor.cli.output import emit, json_option
from advisor.errors import UsageError
from advisor.settings import Settings


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@click.command("bench")
@click.argument("benchmarks", nargs=-1, metavar="[gemm|attention|bandwidth|model|...|all]... | compare A B")
@click.option("--backend", metavar="NAME,...", help="Frameworks to measure through (default: all that are installed), or files of yours.")
@click.option("--dtype", metavar="NAME,...", help="fp64, fp32, tf32, fp16, bf16, int8 (default: all that each backend supports).")
@click.option("--device", metavar="ID", help="A device of `advisor probe` (default: the first usable accelerator, else the CPU).")
@click.option("--shapes", metavar="model:NAME|FILE", help="GEMM shapes of a model, or of a JSON or YAML list of [m, n, k].")
@click.option("--quick", is_flag=True, help="Fewer sizes, two rounds: some 45 seconds a benchmark.")
@click.option("--budget", type=float, metavar="SECONDS", help="How long everything may take.")
@click.option("--no-save", is_flag=True, help="Do not store the measurements in the results database.")
@click.option("--list", "listing", is_flag=True, help="Show the benchmarks and backends, and what would bring those that are missing.")
@json_option
@click.pass_obj
def command(
    settings: Settings,
    benchmarks: tuple[str, ...],
    backend: str | None,
    dtype: str | None,
    device: str | None,
    shapes: str | None,
    quick: bool,
    budget: float | None,
    no_save: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Measure what this machine really does, through each framework, and store it.

    Fresh processes in interleaved rounds; every result is checked against float64; each number carries the 95 % interval of a later
    run. `bench compare A B` sets two runs or two machines side by side. Exits with 0 if anything could be measured, else with 3.

    \b
    Example:
      advisor bench --quick
      advisor bench gemm --backend torch,onnxruntime --dtype fp32,bf16 --shapes model:llama-2-7b
      advisor bench model --budget 300
      advisor bench compare 3f2a 91bc
    """
    from advisor.report import bench as report
    from advisor.usecases import bench as usecase

    if listing:
        emit(usecase.catalogue(), as_json, report.render_catalogue)
        return 0
    if benchmarks[:1] == ("compare",):
        if len(benchmarks) != 3:
            raise UsageError("compare takes two runs or machines", "advisor bench compare A B; `advisor results list` shows runs")
        emit(usecase.compare(benchmarks[1], benchmarks[2], database_url=settings.database_url), as_json, report.render_comparison)
        return 0
    progress = report.ProgressLine()
    try:
        measurements = usecase.bench(
            benchmarks,
            backends=_names(backend),
            dtypes=_names(dtype),
            device=device,
            shapes=shapes,
            quick=quick,
            budget_s=budget,
            save=not no_save,
            database_url=settings.database_url,
            command=" ".join(["advisor", *sys.argv[1:]]),
            on_progress=progress.show,
            on_measurement=progress.count,
        )
    finally:
        progress.close()
    document: dict[str, Any] = usecase.document(measurements)
    emit(document, as_json, report.render_measurements)
    return 0 if any(m.status == "ok" for m in measurements) else 3
