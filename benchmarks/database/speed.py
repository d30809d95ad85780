"""How long an import, every page and every documented query take on a database of so many measurements."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fleet
import httpx
from click.testing import CliRunner

from advisor.cli.main import cli
from advisor.results.importing import Importer
from advisor.results.lines import write_lines
from advisor.results.seed import seed
from advisor.results.store import Store
from advisor.usecases.results import import_files
from advisor.usecases.serve import ServeOptions, Service
from advisor.web.app import create_app

TURNS = 3
#: The queries that the help and the documents show, and what follows from them.
QUERIES = (
    "list --limit 5",
    "query --origin published --benchmark gemm --dtype bf16 --group-by device",
    "query --benchmark gemm --dtype bf16 --group-by device",
    "query --benchmark training --model resnet-50 --device V100 --group-by backend,dtype",
    "query --benchmark gemm --regressions",
    "query --benchmark gemm --outliers",
    "query --device a100",
    "query --device a100 --since 2026-11-25 --format csv",
    "query --backend jax --dtype fp32 --latest --limit 50",
    "query --sql 'SELECT backend, count(*) FROM measurements GROUP BY backend'",
)


def fill(url: str, count: int) -> dict[str, float]:
    """Load the published rows and a fleet's measurements; return rows a second of importing a file, by the clock and by processor time."""
    with Store.open(url) as store, tempfile.TemporaryDirectory() as folder:
        seed(store)
        file = Path(folder) / "fleet.jsonl"
        written = write_lines((record for _, record in fleet.records(min(count, 50_000), seed=0)), file)["measurement"]
        wall, busy = time.perf_counter(), time.process_time()
        import_files(url, [str(file)])
        speed = {"rows_per_s": written / (time.perf_counter() - wall), "rows_per_cpu_s": written / (time.process_time() - busy)}
        Importer(store).take(fleet.records(count, seed=1))
    return speed


def pages(url: str) -> list[str]:
    """Return the address of each kind of page, of something that this database holds."""
    with Store.open(url) as store:
        newest = store.measurements(limit=1)[0]
    selections = (
        "benchmark=collective",
        "device=l4&dtype=fp32",
        "model=resnet50",
        "benchmark=gemm&backend=jax&status=failed",
        "since=2026-11-01",
    )
    return [
        "/", "/machines", f"/machines/{newest['machine']}", "/devices", "/devices/a100-sxm4-80gb", "/devices/l4", "/measurements",
        *(f"/measurements?{selection}" for selection in selections), f"/measurements/{newest['id']}", "/compare",
        "/compare?by=device&dtype=bf16", "/compare?by=version&benchmark=gemm", "/compare?by=machine&benchmark=bandwidth",
        "/compare.svg?benchmark=attention", "/devices/a100-sxm4-80gb/roofline.svg", "/metrics", "/healthz",
    ]  # fmt: skip


def slowest(url: str) -> list[tuple[float, str]]:
    """Return (seconds, what) for each page and query: the middle of a few turns, of which none may use what an earlier one remembered."""
    found = [(_middle(lambda path=path: _get(url, path)), path) for path in pages(url)]  # type: ignore[misc]
    found += [(_middle(lambda query=query: _query(url, query)), f"results {query}") for query in QUERIES]  # type: ignore[misc]
    return found


def _middle(once: Callable[[], float]) -> float:
    return statistics.median(once() for _ in range(TURNS))


def _get(url: str, path: str) -> float:
    options = ServeOptions(database_url=url)
    app: Any = create_app(options)
    app.state.service = Service(options)

    async def ask() -> float:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await client.get("/healthz")
            start = time.perf_counter()
            answer = await client.get(path, headers={"accept": "text/html"})
            took = time.perf_counter() - start
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text[:300]}")
        return took

    try:
        return asyncio.run(ask())
    finally:
        app.state.service.close()


def _query(url: str, query: str) -> float:
    import shlex

    os.environ["NO_COLOR"] = "1"
    start = time.perf_counter()
    done = CliRunner().invoke(cli, ["--db", url, "results", *shlex.split(query)])
    took = time.perf_counter() - start
    if done.exit_code != 0:
        raise SystemExit(f"results {query}: exit {done.exit_code}: {done.output[-300:]} {done.exception!r}")
    return took
