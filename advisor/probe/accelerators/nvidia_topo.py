"""``nvidia-smi topo -m``: how the GPUs of a node are joined, and the processors and memory near each."""

from __future__ import annotations

import re

from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.records import DeviceLink

KINDS = {"X": None, "PIX": "pcie-switch", "PXB": "pcie-switches", "PHB": "pcie-host", "NODE": "pcie-node", "SYS": "system"}
_CELL = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|PSB)$")
_COLUMN = re.compile(r"\bGPU(\d+)\b|\b(?:NIC|mlx\S*?_)\d+\b")


def parse_topo(text: str) -> Reading:
    """Read the matrix. Every GPU that heads a row or a column is seen; a link's bandwidth is not in it.

    ``NV12`` is twelve NVLinks (``kind`` is ``nvlink``). The columns after the matrix are CPU affinity, NUMA affinity and the
    GPU's own NUMA node; a version may lack any of them.
    """
    # The head is underlined; a text that went through a web page has lost the escape character and kept the rest.
    lines = re.sub(r"\x1b?\[[0-9;]*m", "", text).splitlines()
    head = next(
        (number for number, line in enumerate(lines) if re.search(r"\bGPU0\b", line) and not re.match(r"\s*GPU\d+\s+(X|NV\d|SYS)\b", line)),
        None,
    )
    if head is None:
        return Reading()
    columns = [int(match.group(1)) for match in re.finditer(r"\bGPU(\d+)\b", lines[head])]
    found = {index: _seen(index) for index in columns}
    tail = re.sub(r"^.*?(?=CPU Affinity|$)", "", lines[head])
    for line in lines[head + 1 :]:
        match = re.match(r"^\s*GPU(\d+)\s+(.*)$", line)
        if match is None:
            if "Legend" in line:
                break
            continue
        index = int(match.group(1))
        row = found.setdefault(index, _seen(index))
        words = match.group(2).split()
        cells = words[: next((place for place, word in enumerate(words) if not _CELL.match(word)), len(words))]
        row.links = tuple(link for column, cell in zip(columns, cells, strict=False) if (link := _link(column, cell)) is not None)
        row.details.update(_affinity(words[len(cells) :], tail))
        lanes = [int(cell[2:]) for cell in cells[: len(columns)] if cell.startswith("NV")]
        if lanes:
            row.details["nvlink"] = {"links_to_peer": max(lanes)}
    return Reading(sightings=[found[index] for index in sorted(found)])


def _seen(index: int) -> Sighting:
    found = Sighting(source="nvidia-smi topo -m", target="cuda", vendor="nvidia", key=f"nvidia:{index}", driver=True, library=True)
    found.details["nvml_index"] = index
    return found


def _link(column: int, cell: str) -> DeviceLink | None:
    kind = "nvlink" if cell.startswith("NV") else KINDS.get(cell, cell.lower())
    return DeviceLink(to=f"nvidia:{column}", kind=kind, bandwidth_bytes_per_s=None) if kind else None


def _affinity(words: list[str], tail: str) -> dict[str, object]:
    values = [None if word == "N/A" else word for word in words]
    names = [name for name in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID") if name in tail]
    facts = dict(zip(names, values, strict=False))
    numa, own = facts.get("NUMA Affinity"), facts.get("GPU NUMA ID")
    return compact(
        {
            "cpu_affinity": facts.get("CPU Affinity"),
            "numa_node": int(numa) if numa and numa.isdecimal() else None,
            "gpu_numa_node": int(own) if own and own.isdecimal() else None,
        }
    )
