"""What a fleet's task does on its node: probe or measure into a database of its own, and hand back the records."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a node found: its machine, how much was measured and how much of that was ok, and the records as compressed JSON lines."""

    fingerprint: str
    devices: list[dict[str, Any]]
    measurements: int
    ok: int
    records: bytes


def on_this_node(kind: str, options: dict[str, Any]) -> NodeAnswer | str:
    """Probe this node, or measure on it with the options of ``usecases.bench.bench``; return the line of what a user can mend there."""
    try:
        return _answer(kind, options)
    except AdvisorError as error:
        return error.line()


def _answer(kind: str, options: dict[str, Any]) -> NodeAnswer:
    from advisor.results.filters import Filters
    from advisor.usecases.probe import probe
    from advisor.usecases.results import export

    with tempfile.TemporaryDirectory(prefix="advisor-fleet-") as folder:
        url = f"sqlite:///{folder}/results.db"
        machine = probe(save=True, database_url=url, frameworks=bool(options.get("frameworks"))).to_dict()
        measured = []
        if kind == "bench":
            from advisor.usecases.bench import bench

            measured = bench(database_url=url, **options)
        file = Path(folder) / "records.jsonl.gz"
        export(url, str(file), Filters(), parquet=False)
        return NodeAnswer(
            fingerprint=str(machine["fingerprint"]),
            devices=[{name: device[name] for name in ("id", "name", "state")} for device in machine["devices"]],
            measurements=len(measured),
            ok=sum(one.status == "ok" for one in measured),
            records=file.read_bytes(),
        )
