"""AWS Neuron (Inferentia, Trainium): ``neuron-ls`` as a table or JSON, PCI ids, /dev/neuron nodes."""

from __future__ import annotations

import re
from typing import Any

from advisor.probe.accelerators._common import from_pci, try_nodes
from advisor.probe.accelerators._libs import find_library
from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, integer, loose_json, size_bytes, value
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.records import DeviceLink
from advisor.probe.root import Root

AMAZON = 0x1D0F
BIN = ("/opt/aws/neuron/bin",)
LIB = ("/opt/aws/neuron/lib",)


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the Neuron devices that are listed, never a number taken from the instance type."""
    seen = [device for device in pci if (known := device.identity) is not None and known.target == "neuron"]
    nodes = sorted(int(name[6:]) for name in root.names("/dev") if re.fullmatch(r"neuron\d{1,4}", name))
    text = recorded(root, "neuron-ls.txt")
    if not (seen or nodes or text):
        return Reading()
    listed = parse_neuron_ls(text if text is not None else _run(root) if nodes else "")
    if not listed and not seen:
        listed = [Sighting(source="dev", target="neuron", vendor="aws", key=f"neuron:{number}", driver=True) for number in nodes]
    sightings = [*listed, *(from_pci(device, "neuron", ("neuron",), "aws") for device in seen)]
    for item in sightings:
        if item.source == "pci" and item.driver is None and nodes:
            item.driver = True
        if item.driver and root.names("/dev"):
            number = integer((item.key or "").partition(":")[2])
            chosen = (
                [f"/dev/neuron{number}"] if number is not None else [f"/dev/neuron{number}" for number in nodes[:1]] or ["/dev/neuron0"]
            )
            try_nodes(root, item, chosen)
        if root.is_live and item.driver:
            item.library = bool(find_library(root, "libnrt.so.1", LIB))
    return Reading(sightings=sightings)


def _run(root: Root) -> str:
    """Ask in the form of today's tools, then in that of the older ones."""
    for flags in (["--output-format", "json"], ["-j"], []):
        answer = run_tool(["neuron-ls", *flags], root.environ, extra=BIN)
        if answer.status != "failed":
            return answer.text
    return ""


def parse_neuron_ls(text: str) -> list[Sighting]:
    """Read ``neuron-ls`` in either form, whole or cut off."""
    found = loose_json(text) if re.search(r"^\s*[\[{]", text, re.MULTILINE) else None
    stated = str(found.get("instance_type") or "") if isinstance(found, dict) else ""
    if isinstance(found, dict):
        found = next((part for part in found.values() if isinstance(part, list)), [found])
    items = [_from_json(item) for item in found if isinstance(item, dict)] if isinstance(found, list) else _table(text)
    match = re.search(r"instance-type:\s*(\S+)", text) or re.fullmatch(r"(\S+)", stated)
    family = re.match(r"(inf\d|trn\d)", match.group(1)) if match else None
    for item in items:
        if match:
            item.details["instance_type"] = match.group(1)
        item.arch = item.arch or (family.group(1) if family else None)
        item.unknown.setdefault("arch", "neuron-ls does not name the generation, and no PCI id was recorded")
    return [item for item in items if item.key]


def _from_json(item: dict[str, Any]) -> Sighting:
    index = integer(item.get("neuron_device", item.get("device_index", item.get("index"))))
    peers = item.get("connected_to", item.get("connected_devices"))
    return _device(
        index,
        cores=integer(item.get("nc_count", item.get("neuroncore_count"))),
        logical=integer(item.get("logical_neuroncore_count", item.get("lnc_count"))),
        memory=size_bytes(item.get("memory_size")),
        bus_id=normal_bdf(value(item.get("bdf"))),
        peers=[peer for part in peers if (peer := integer(part)) is not None] if isinstance(peers, list) else [],
    )


def _table(text: str) -> list[Sighting]:
    """Read the table: a column's head is written over two or three lines, so the parts of a column are joined."""
    heads: list[str] = []
    found: list[Sighting] = []
    for line in text.splitlines():
        bare = line.strip().replace("│", "|").replace("║", "|")
        if not bare.startswith("|"):
            continue
        cells = [cell.strip() for cell in bare.strip("|").split("|")]
        if not cells[0].isdecimal():
            if not found:
                heads += [""] * (len(cells) - len(heads))
                heads = [f"{head} {cells[place]}".strip().lower() if place < len(cells) else head for place, head in enumerate(heads)]
            continue
        row = dict(zip(heads, cells, strict=False))

        def column(*words: str, row: dict[str, str] = row) -> str | None:
            return next((cell for head, cell in row.items() if all(word in head for word in words)), None)

        peers = [int(peer) for peer in re.findall(r"\d{1,4}", column("connected") or "")]
        bus_id = next((bdf for cell in cells if (bdf := normal_bdf(cell))), None)
        found.append(
            _device(
                int(cells[0][:6]),
                cores=integer(column("neuron", "cores")),
                logical=integer(column("logical")),
                memory=size_bytes(column("memory"), "GB"),
                bus_id=bus_id,
                peers=peers,
            )
        )
    return found


def _device(
    index: int | None, *, cores: int | None, logical: int | None, memory: int | None, bus_id: str | None, peers: list[int]
) -> Sighting:
    found = Sighting(source="neuron-ls", target="neuron", vendor="aws", driver=True, library=True)
    found.key = f"neuron:{index}" if index is not None else None
    found.compute_units, found.memory_bytes, found.bus_id = cores, memory, bus_id
    found.package = bus_id or found.key
    found.links = tuple(DeviceLink(to=f"neuron:{peer}", kind="neuronlink", bandwidth_bytes_per_s=None) for peer in dict.fromkeys(peers))
    found.details = compact({"neuron_device": index, "logical_cores": logical})
    return found
