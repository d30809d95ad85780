"""The CUDA driver library, asked in a child with a deadline: whether CUDA can start, and what it sees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.probe.accelerators._sighting import Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.nvml import SHAPES, sm_name, unhidden
from advisor.probe.records import State
from microbench.child import python_child, run_child

CUDA_DEADLINE_S = 8.0


@dataclass(slots=True)
class CudaAnswer:
    """How the CUDA driver library answered: ``usable`` is None where it was not there to be asked."""

    usable: bool | None = None
    reason: str | None = None
    state: State | None = None
    sightings: list[Sighting] = field(default_factory=list)
    driver_version: str | None = None


def ask_cuda(environ: Mapping[str, str], deadline_s: float = CUDA_DEADLINE_S) -> CudaAnswer:
    """Initialise CUDA in a child and list what it sees; no context is made and no GPU memory taken."""
    result = run_child(python_child("advisor.probe.accelerators._cuda_child"), timeout_s=deadline_s, env=unhidden(environ))
    if result.status == "timeout":
        return CudaAnswer(usable=False, state="timeout", reason=f"cuInit gave no answer within {deadline_s:g} s")
    if result.status == "crashed":
        return CudaAnswer(
            usable=False, state="crashed", reason=f"the CUDA driver library ended the process that asked it ({result.reason})"
        )
    return read_cuda(result.stdout)


def read_cuda(output: str) -> CudaAnswer:
    """Read the child's JSON."""
    try:
        record = json.loads(output)
    except ValueError:
        return CudaAnswer(reason="the CUDA driver library could not be asked")
    try:
        return _cuda_answer(record)
    except SHAPES:
        return CudaAnswer(reason="the CUDA driver library could not be asked")


def _cuda_answer(record: dict[str, Any]) -> CudaAnswer:
    status, version = record.get("status"), record.get("driver_version")
    text = f"{version // 1000}.{version % 1000 // 10}" if isinstance(version, int) and version else None
    if status is None:
        return CudaAnswer(reason=f"no libcuda.so.1: {record.get('text')}")
    if status != 0:
        words = f"cuInit fails with CUDA error {status}" + (f" ({record['text']})" if record.get("text") else "")
        return CudaAnswer(usable=False, reason=words, driver_version=text)
    return CudaAnswer(usable=True, driver_version=text, sightings=[_cuda_device(item, text) for item in record.get("devices") or []])


def _cuda_device(item: dict[str, Any], version: str | None) -> Sighting:
    domain, bus, device = (*(item.get("bus") or []), None, None, None)[:3]
    known = all(isinstance(part, int) for part in (domain, bus, device))
    found = Sighting(source="cuda", target="cuda", vendor="nvidia", driver=True, library=True, runtime=True)
    found.bus_id = f"{domain:04x}:{bus:02x}:{device:02x}.0" if known else None
    found.uuid = f"GPU-{item['uuid']}" if item.get("uuid") else None
    found.arch = sm_name(item.get("compute_capability"))
    found.compute_units = item.get("multiprocessors")
    if item.get("integrated"):
        found.memory_kind = "unified"
        found.details["integrated"] = True
        found.details["cuda_memory_bytes"] = item.get("memory")
    else:
        found.memory_bytes = item.get("memory")
    found.details.update(compact({"cuda_index": item.get("index"), "cuda_driver_version": version}))
    return found
