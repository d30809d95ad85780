"""This machine, compared with what its own tools say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from advisor.probe.host import read_host
from advisor.probe.root import Root

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with Linux tools")


def tool(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ, "LC_ALL": "C"}, check=True).stdout


def test_as_lscpu_says() -> None:
    fields = {item["field"].rstrip(":"): item["data"] for item in _flat(json.loads(tool("lscpu", "-J"))["lscpu"])}
    host = read_host(Root.live()).host
    assert host.arch == fields["Architecture"]
    assert host.cpu.logical_cpus == os.sysconf("SC_NPROCESSORS_ONLN")
    if "Socket(s)" in fields and "Core(s) per socket" in fields:
        assert host.cpu.sockets == int(fields["Socket(s)"])
        assert host.cpu.physical_cores == int(fields["Socket(s)"]) * int(fields["Core(s) per socket"])
    if "Flags" in fields:
        assert set(host.cpu.isa) == set(fields["Flags"].split())


def _flat(items: list[dict[str, object]]) -> list[dict[str, object]]:
    flat = []
    for item in items:
        flat.append(item)
        children = item.get("children")
        flat += _flat(children) if isinstance(children, list) else []
    return flat


def test_as_nproc_says() -> None:
    cpu = read_host(Root.live()).host.cpu
    assert cpu.usable_cpus is not None
    # nproc knows the mask and the cpuset, not the quota.
    assert cpu.usable_cpus <= int(tool("nproc", "--all"))
    if cpu.usable_cpus_source in ("online", "affinity"):
        assert cpu.usable_cpus == len(os.sched_getaffinity(0))


def test_as_free_says() -> None:
    total = int(tool("free", "-b").splitlines()[1].split()[1])
    memory = read_host(Root.live()).host.memory
    assert memory.total_bytes == total
    assert memory.usable_bytes is not None
    assert memory.usable_bytes <= total
