"""--record writes a folder that --root reads as the same machine, without serial numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from advisor.errors import UsageError
from advisor.probe._scrub import scrub
from advisor.probe.assemble import probe_machine
from advisor.probe.host import read_host
from advisor.probe.record import record_machine
from advisor.probe.records import Device
from advisor.probe.root import Root

Write = Callable[..., Root]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="records Linux files")
def test_this_machine_recorded_and_read_back_is_the_same(tmp_path: Path) -> None:
    target = tmp_path / "recorded"
    assert record_machine(Root.live(), target) > 5
    live, recorded = read_host(Root.live()).host, read_host(Root(target)).host
    assert recorded.arch == live.arch
    assert recorded.kernel == live.kernel
    # The process that reads and the moment differ; the processor does not.
    assert replace(recorded.cpu, usable_cpus_source=None) == replace(live.cpu, usable_cpus_source=None)
    assert recorded.memory.total_bytes == live.memory.total_bytes
    assert recorded.memory.usable_bytes == live.memory.usable_bytes


def test_limits_of_every_level_are_recorded(machine: Write, tmp_path: Path) -> None:
    group = "/sys/fs/cgroup"
    root = machine(
        {
            "/proc/meminfo": "MemTotal: 64000000 kB\n",
            "/proc/self/cgroup": "0::/a/b\n",
            "/proc/self/mountinfo": f"30 25 0:30 / {group} rw - cgroup2 cgroup2 rw\n",
            f"{group}/a/b/memory.max": "max",
            f"{group}/a/memory.max": "1000000000",
            f"{group}/a/secret.key": "do not copy",
        }
    )
    target = tmp_path / "recorded"
    record_machine(root, target)
    assert read_host(Root(target)).host.memory.usable_bytes == 1000000000
    assert not list(target.rglob("secret*"))


def test_serial_numbers_and_uuids_are_taken_out(machine: Write, tmp_path: Path) -> None:
    text = "Hardware\t: X\nSerial\t\t: 00000000be6d9ba0\nGPU UUID : GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\n"
    root = machine({"/proc/cpuinfo": text, "/sys/class/dmi/id/product_serial": "ABC123\n", "/sys/class/dmi/id/sys_vendor": "Maker\n"})
    target = tmp_path / "recorded"
    record_machine(root, target)
    written = "".join(path.read_text() for path in target.rglob("*") if path.is_file())
    for secret in ("be6d9ba0", "20bd9faed9f6", "ABC123"):
        assert secret not in written
    assert "Maker" in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<serial>1320220000000</serial>", "<serial>[removed]</serial>"),
        ('{"Serial Number": "69210300", "Card": "x"}', '{"Serial Number": "[removed]", "Card": "x"}'),
        ("Serial Number    : 1320220000000\nName : A\n", "Serial Number    : [removed]\nName : A\n"),
        ("size 5\nunique_id 0\n", "size 5\nunique_id 0\n"),
    ],
)
def test_scrub_in_each_form(text: str, expected: str) -> None:
    assert scrub(text) == expected


def test_scrub_keeps_identities_distinct_and_of_the_same_form() -> None:
    one, two = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f7"
    assert scrub(one) != one
    assert scrub(one) != scrub(two)
    assert scrub(f"{one} {one}") == f"{scrub(one)} {scrub(one)}"
    assert len(scrub(one)) == len(one)
    assert scrub("unique_id 9246324482345\n") not in ("unique_id 9246324482345\n", scrub("unique_id 9246324482346\n"))


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("something")
    with pytest.raises(UsageError, match="not empty"):
        record_machine(Root(tmp_path), tmp_path)


MACHINES = {
    path.stem: {name: text for name, text in yaml.safe_load(path.read_text(encoding="utf-8"))["files"].items() if name[:7] != "/tools/"}
    for path in sorted((Path(__file__).resolve().parents[2] / "data" / "machines").glob("*.yaml"))
}


def unnamed(device: Device) -> str:
    """Write a device without its UUIDs, which a record replaces."""
    return re.sub(r"[0-9a-f]{16}|GPU-[^ ']*", "*", repr(replace(device, uuid=None, package=None)))


@pytest.mark.parametrize("name", [name for name, files in MACHINES.items() if files])
def test_what_is_read_is_recorded(name: str, machine: Write, tmp_path: Path) -> None:
    """A machine recorded and read back is the same machine; tools are asked anew, so their texts are left out."""
    root, target = machine(MACHINES[name]), tmp_path / "recorded"
    record_machine(root, target)
    before, after = probe_machine(root), probe_machine(Root(target))
    assert [unnamed(device) for device in after.devices] == [unnamed(device) for device in before.devices]
    assert after.host == before.host


def test_the_kernels_command_line_keeps_no_names(machine: Write, tmp_path: Path) -> None:
    line = "BOOT_IMAGE=/vmlinuz root=UUID=1234 ip=10.0.0.1 password=x ttm.pages_limit=100 amdgpu.gtt_size=5 isolcpus=2-3 iommu=pt quiet"
    record_machine(machine({"/proc/cmdline": line}), tmp_path / "recorded")
    assert (tmp_path / "recorded/proc/cmdline").read_text().split() == [
        "ttm.pages_limit=100",
        "amdgpu.gtt_size=5",
        "isolcpus=2-3",
        "iommu=pt",
    ]


def test_virtual_functions_and_groups_are_recorded(machine: Write, tmp_path: Path) -> None:
    function = "/sys/bus/pci/devices/0000:c1:02.0"
    group = "/sys/kernel/iommu_groups/3/devices/0000:00:05.0"
    root = machine(
        {
            f"{function}/vendor": "0x1002\n", f"{function}/device": "0x74b5\n", f"{function}/class": "0x120000\n",
            f"{group}/vendor": "0x1ae0\n", f"{group}/device": "0x0063\n", f"{group}/class": "0xff0000\n",
            "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: X\nDevice Minor: 3\n",
            "/sys/module/ttm/parameters/pages_limit": "1000\n",
        }
    )  # fmt: skip
    root.path(f"{function}/physfn").symlink_to("../0000:c1:00.0")
    target = tmp_path / "recorded"
    record_machine(root, target)
    recorded = Root(target)
    assert recorded.link(f"{function}/physfn") == "../0000:c1:00.0"
    assert recorded.line(f"{group}/device") == "0x0063"
    assert recorded.integer("/sys/module/ttm/parameters/pages_limit") == 1000
    assert "Minor: 3" in (recorded.text("/proc/driver/nvidia/gpus/0000:01:00.0/information") or "")
