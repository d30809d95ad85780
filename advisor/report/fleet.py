"""What a fleet's nodes did, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.report.results import print_lines, render_table


def render_fleet(document: Mapping[str, Any]) -> None:
    """Print a verdict, and a line a node."""
    nodes = document["nodes"]
    done = [node for node in nodes if node["state"] == "done"]
    what = "probed" if document["kind"] == "probe" else "measured"
    measured = sum(node["measurements"] for node in nodes)
    said = f"{len(done)} of {len(nodes)} nodes {what}"
    print_lines(said + (f", {measured:,} measurements" if document["kind"] == "bench" else ""))
    machines = {node["machine"] for node in done}
    if len(machines) < len(done):
        print_lines(f"they are {len(machines)} machine{'' if len(machines) == 1 else 's'}: several nodes of the cluster run on one")
    head = ("node", "address", "state", "turns", "machine", "devices", "measurements", "ok", "reason")
    rows = [
        (
            node["node"][:8],
            node["address"],
            node["state"],
            str(node["attempts"]),
            (node["machine"] or "")[:12],
            ", ".join(f"{device['id']} {device['state']}" for device in node["devices"]),
            str(node["measurements"] or ""),
            str(node["ok"] or ""),
            node["reason"] or "",
        )
        for node in nodes
    ]
    render_table(head, rows)
    if document["conflicts"]:
        print_lines(f"{len(document['conflicts'])} measurements were there with other content; those that were there are kept")
