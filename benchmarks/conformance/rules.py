"""What each kind of record claims, as facts beside what the probe's document says.

A value that is written as prose is read for what it allows: ``ppc64/ppc64le (the file does not tell)`` holds for either name,
``rvv (v)`` for either spelling of the feature.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from machines import GROUP_CPUS, GROUP_MEMORY_KB, Machine

from advisor.probe.accelerators._sighting import normal_bdf
from advisor.probe.host._text import parse_cpulist

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """One claim, what was probed, and whether it holds."""

    name: str
    claimed: Any
    probed: Any
    holds: bool


def equal(name: str, claimed: Any, probed: Any) -> Fact:
    """Return the fact that holds if both are the same."""
    return Fact(name, claimed, probed, claimed == probed)


def facts_of(machine: Machine, document: Document) -> Iterator[Fact]:
    """Yield the facts of a machine; none for a kind of record that has no rule here."""
    if "files" in machine.expected:
        yield from _own(machine.expected, document)
        return
    rule = _RULES.get(machine.kind)
    if rule is not None:
        yield from rule(machine.expected, document)


def _devices(document: Document, target: str | None = None) -> list[Document]:
    return [d for d in document["devices"] if (d["target"] == target if target else not d["target"].startswith("cpu"))]


def _own(expected: Document, document: Document) -> Iterator[Fact]:
    """Facts of the project's own machines: fields of devices by identity, fields of the host by path, codes of findings."""
    devices = _devices(document)
    wanted = expected.get("devices")
    if wanted is not None:
        yield equal("devices", len(wanted), len(devices))
    for facts in wanted or ():
        keys = [name for name in ("uuid", "bus_id", "name") if facts.get(name)]
        found = next((device for device in devices if all(device[name] == facts[name] for name in keys)), None)
        for name, claimed in facts.items():
            yield equal(f"{facts.get('bus_id') or facts.get('uuid')}.{name}", claimed, _at(found, name) if found else None)
    for path, claimed in (expected.get("host") or {}).items():
        yield equal(path, claimed, _at(document["host"], path))
    isa = set(document["host"]["cpu"]["isa"])
    for flag, claimed in (expected.get("isa") or {}).items():
        yield equal(f"isa {flag}", claimed, flag in isa)
    for code in expected.get("findings") or ():
        yield equal(f"finding {code}", True, any(finding["code"] == code for finding in document["findings"]))


def _at(place: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(place, (list, tuple)):
            place = place[int(part)] if part.isdigit() and int(part) < len(place) else len(place) if part == "count" else None
        else:
            place = place.get(part) if isinstance(place, dict) else None
    return list(place) if isinstance(place, tuple) else place


def _arch(claimed: str, probed: str | None) -> Fact:
    allowed = [word for word in re.split(r"[/\s]+", re.sub(r"\(.*\)", "", claimed)) if word]
    return Fact("arch", claimed, probed, probed in allowed or (allowed == ["arm"] and (probed or "").startswith("arm")))


def _host(expected: Document, document: Document) -> Iterator[Fact]:
    host = document["host"]
    cpu, isa = host["cpu"], set(host["cpu"]["isa"])
    if expected.get("arch"):
        yield _arch(expected["arch"], host["arch"])
    for name, claimed in (expected.get("features") or {}).items():
        if name != "hypervisor":  # whether there is one is virtualization's answer, not a feature of the processor
            yield equal(f"isa {name}", bool(claimed), bool(isa.intersection(re.split(r"[\s()]+", name))))
    whole = not (expected.get("file_is_truncated") or expected.get("file_may_be_truncated"))
    counts = ("logical_cpus", "logical_cpus"), ("cpus_online", "logical_cpus"), ("sockets", "sockets"), ("packages", "sockets")
    for name, field in (*counts, ("physical_cores", "physical_cores")):
        if whole and isinstance(expected.get(name), int):
            yield equal(name, expected[name], cpu[field])
    yield from _clusters(expected.get("clusters"), cpu["clusters"], whole)
    memory = expected.get("meminfo_mem_total_bytes") or (expected.get("memory_bytes") if expected.get("os") == "darwin" else None)
    if memory:
        yield equal("memory", memory, host["memory"]["total_bytes"])
    yield from _nodes(expected.get("numa_nodes"), cpu["numa_nodes"])


def _clusters(claimed: Any, probed: Any, whole: bool) -> Iterator[Fact]:
    if not isinstance(claimed, list):
        return
    key = ("implementer", "part") if any(item.get("part") for item in claimed) else ("name",)
    want: Counter[tuple[str, ...]] = Counter()
    got: Counter[tuple[str, ...]] = Counter()
    for items, counter in ((claimed, want), (probed, got)):
        for item in items:
            counter[tuple(str(item.get(name)) for name in key)] += item.get("count") or 0
    if all(name == ("None",) * len(key) for name in want):
        return
    yield equal("kinds of cores", sorted(want), sorted(got))
    if whole:
        yield equal("cores of each kind", dict(want), dict(got))


def _nodes(claimed: Any, probed: Any) -> Iterator[Fact]:
    if isinstance(claimed, int):
        yield equal("NUMA nodes", claimed, len(probed))
    for number, facts in claimed.items() if isinstance(claimed, dict) else ():
        node = next((item for item in probed if item["id"] == int(number)), None)
        if facts.get("cpulist") is not None:
            cpus = sorted(node["cpus"]) if node else None
            yield equal(f"CPUs of node {number}", sorted(parse_cpulist(str(facts["cpulist"])) or ()), cpus)
        if facts.get("mem_total_bytes"):
            yield equal(f"memory of node {number}", facts["mem_total_bytes"], node["memory_bytes"] if node else None)


def _group(expected: Document, document: Document) -> Iterator[Fact]:
    host = document["host"]
    quota = expected.get("effective_cpus_by_quota")
    if quota:
        listed = parse_cpulist(str(expected.get("cpuset.cpus.effective") or ""))
        least = min(float(quota), float(len(listed or range(GROUP_CPUS))), GROUP_CPUS)
        yield equal("usable CPUs", round(least, 4), round(host["cpu"]["usable_cpus"] or 0.0, 4))
    limit = next(
        (text for key in ("memory.max", "memory_max", "memory/memory.limit_in_bytes") if (text := str(expected.get(key))).isdigit()), None
    )
    if limit:
        yield equal("usable memory", min(int(limit), GROUP_MEMORY_KB * 1024), host["memory"]["usable_bytes"])


def _kfd(expected: Document, document: Document) -> Iterator[Fact]:
    gpus = _devices(document, "rocm")
    yield equal("packages", expected["physical_gpus"], len({gpu["package"] for gpu in gpus}))
    yield equal("arch", [expected["gfx"]], sorted({gpu["arch"] for gpu in gpus}))
    if isinstance(expected.get("compute_units_per_kfd_node"), int):
        yield equal("compute units", [expected["compute_units_per_kfd_node"]], sorted({gpu["compute_units"] for gpu in gpus}))
    claimed = [normal_bdf(gpu.get("bdf")) for gpu in expected.get("gpus") or ()]
    if claimed and all(claimed):
        probed = sorted(gpu["bus_id"] for gpu in gpus)
        yield Fact("bus addresses", claimed, probed, set(claimed) <= set(probed) and len(claimed) <= len(probed))


def _nvidia_xml(expected: Document, document: Document) -> Iterator[Fact]:
    gpus = _devices(document, "cuda")
    yield equal("packages", len(expected["gpus"]), len({gpu["package"] for gpu in gpus}))
    for claimed in expected["gpus"]:
        gpu = next((item for item in gpus if item["uuid"] == claimed["uuid"]), None)
        if gpu is None:
            yield equal("slices stand for it", True, any(item["package"] == claimed["uuid"] for item in gpus))
            continue
        yield equal("name", claimed["name"], gpu["name"])
        if claimed.get("bdf"):
            yield equal("bus address", normal_bdf(claimed["bdf"]), gpu["bus_id"])
        if isinstance(claimed.get("memory_total_mib"), int):
            yield equal("memory", claimed["memory_total_mib"] << 20, gpu["memory_bytes"])


def _nvidia_text(expected: Document, document: Document) -> Iterator[Fact]:
    gpus = _devices(document, "cuda")
    if isinstance(expected.get("gpu_count"), int):
        yield equal("packages", expected["gpu_count"], len({gpu["package"] for gpu in gpus}))
    if expected.get("mig_devices"):
        probed = sorted(gpu["uuid"] for gpu in gpus if (gpu["uuid"] or "").startswith("MIG-"))
        yield equal("slices", sorted(item["uuid"] for item in expected["mig_devices"]), probed)
    for name, claimed in (("memory_kind", expected.get("memory_kind")), ("name", expected.get("name"))):
        if claimed:
            yield equal(name, [claimed], sorted({gpu[name] for gpu in gpus}))
    if isinstance(expected.get("memory_mib"), int):
        yield equal("memory", [expected["memory_mib"] << 20], sorted({gpu["memory_bytes"] for gpu in gpus}))


def _topology(expected: Document, document: Document) -> Iterator[Fact]:
    gpus = _devices(document, "cuda")
    if isinstance(expected.get("columns_gpu"), int):
        yield equal("GPUs", expected["columns_gpu"], len(gpus))
    lanes = re.fullmatch(r"NV(\d+)", str(expected.get("link")))
    if lanes:
        probed = {gpu["details"]["nvlink"]["links_to_peer"] for gpu in gpus if gpu["details"].get("nvlink")}
        yield equal("links to a peer", [int(lanes[1])], sorted(probed))


def _rocm(expected: Document, document: Document) -> Iterator[Fact]:
    gpus = _devices(document, "rocm")
    yield equal("cards", len(expected["cards"]), len(gpus))
    by_bus = {gpu["bus_id"]: gpu for gpu in gpus}
    for card in expected["cards"]:
        gpu = by_bus.get(normal_bdf(card.get("pci_bus"))) if card.get("pci_bus") else None
        for name, field in (("vram_total_bytes", "memory_bytes"), ("gfx", "arch")):
            if card.get("pci_bus") and card.get(name):
                yield equal(field, int(card[name]) if name != "gfx" else card[name], gpu[field] if gpu else None)


def _ascend(expected: Document, document: Document) -> Iterator[Fact]:
    chips = _devices(document, "npu")
    claimed = expected.get("devices") or []
    count = len(claimed) or expected.get("chips")
    if isinstance(count, int):
        yield equal("chips", count, len(chips))
    for item in claimed:
        found = [chip for chip in chips if chip["bus_id"] == normal_bdf(item.get("bus"))]
        yield equal(f"bus address {item.get('bus')}", True, bool(found))
        size = item.get("hbm_total_mb") or item.get("mem_total_mb")
        if size:
            yield equal("memory", True, any(chip["memory_bytes"] == int(size) << 20 for chip in found))


def _neuron(expected: Document, document: Document) -> Iterator[Fact]:
    found = _devices(document, "neuron")
    count = expected.get("devices", expected.get("devices_in_file"))
    if isinstance(count, int):
        yield equal("devices", count, len(found))
    if isinstance(expected.get("memory_gb"), int):
        yield equal("memory", [expected["memory_gb"] << 30], sorted({item["memory_bytes"] for item in found}))


def _tpu(expected: Document, document: Document) -> Iterator[Fact]:
    chips = _devices(document, "tpu")
    yield equal("chips", expected.get("chips", expected.get("tpu_chips")), len(chips))
    if expected.get("generation"):
        yield equal("generation", [expected["generation"]], sorted({chip["arch"] for chip in chips}))


def _lspci(expected: Document, document: Document) -> Iterator[Fact]:
    if expected.get("nvidia_3d_controllers"):
        yield equal("NVIDIA GPUs", expected["nvidia_3d_controllers"], len(_devices(document, "cuda")))
    if expected.get("status") == "present_no_driver":
        found = [item["state"] for item in _devices(document) if item["bus_id"] == normal_bdf(expected.get("bdf"))]
        yield equal("state", ["no_driver"], found)


def _npu(expected: Document, document: Document) -> Iterator[Fact]:
    found = _devices(document, "npu")
    if expected.get("status") == "present_no_driver":
        yield equal("state", ["no_driver"], [item["state"] for item in found])
    for claimed in expected.get("devices") or ():
        yield equal("name", claimed["name"], next((i["name"] for i in found if i["bus_id"] == normal_bdf(claimed["bdf"])), None))
    if expected.get("load_percent"):
        yield equal("load", expected["load_percent"], found[0]["details"].get("load_pct") if found else None)


def _amdgpu(expected: Document, document: Document) -> Iterator[Fact]:
    found = _devices(document, "rocm")
    yield equal("memory kind", expected.get("memory_kind", "unified"), found[0]["memory_kind"] if found else None)
    if expected.get("usable_for_gpu_bytes_max") and found:
        most, probed = expected["usable_for_gpu_bytes_max"], found[0]["memory_bytes"]
        yield Fact("memory at most", most, probed, probed is not None and probed <= most)


_RULES: dict[str, Callable[[Document, Document], Iterator[Fact]]] = {
    **dict.fromkeys(("cpuinfo", "sysfs-hwloc", "sysfs-lscpu", "sysfs-numa"), _host),
    "cgroup": _group,
    "kfd": _kfd,
    "nvidia-smi": _nvidia_xml,
    "nvidia-smi-text": _nvidia_text,
    "nvidia-topo": _topology,
    "rocm-smi": _rocm,
    "npu-smi": _ascend,
    "neuron-ls": _neuron,
    "tpu": _tpu,
    "lspci": _lspci,
    "npu": _npu,
    "sysfs-amdgpu": _amdgpu,
}
