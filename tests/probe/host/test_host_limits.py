"""What control groups, masks and memory allow: v1, v2, hybrid, nested, broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from advisor.probe.host import HostReport, read_host
from advisor.probe.root import Root

Write = Callable[..., Root]
G = "/sys/fs/cgroup"
V2 = "30 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def v1(*controllers: str, root: str = "/") -> str:
    return "".join(f"{30 + i} 25 0:{30 + i} {root} {G}/{c} rw - cgroup cgroup rw,{c}\n" for i, c in enumerate(controllers))


def base(cpus: int = 16, total_kb: int = 64_000_000) -> dict[str, str]:
    return {
        "/proc/cpuinfo": "".join(f"processor\t: {i}\nvendor_id\t: GenuineIntel\nflags\t: lm\n\n" for i in range(cpus)),
        "/proc/meminfo": f"MemTotal: {total_kb} kB\nMemAvailable: {total_kb // 2} kB\nSwapTotal: 0 kB\n",
    }


def read(machine: Write, groups: str, mounts: str, files: dict[str, str], **more: str) -> HostReport:
    return read_host(machine(base() | {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mounts} | files | more))


@pytest.mark.parametrize(
    ("text", "cpus"), [("400000 100000", 4.0), ("250000 100000", 2.5), ("max 100000", 16.0), ("150000", 1.5), ("50000 100000", 0.5)]
)
def test_bug_72_v2_quota_keeps_its_fraction(machine: Write, text: str, cpus: float) -> None:
    cpu = read(machine, "0::/\n", V2, {f"{G}/cpu.max": text}).host.cpu
    assert cpu.usable_cpus == cpus
    assert cpu.usable_cpus_source == ("online" if cpus == 16 else f"{G}/cpu.max")


@pytest.mark.parametrize(("quota", "cpus"), [("-1", 16.0), ("250000", 2.5)])
def test_bug_72_v1_quota(machine: Write, quota: str, cpus: float) -> None:
    files = {f"{G}/cpu/a/cpu.cfs_quota_us": quota, f"{G}/cpu/a/cpu.cfs_period_us": "100000"}
    assert read(machine, "2:cpu:/a\n", v1("cpu"), files).host.cpu.usable_cpus == cpus


def test_bug_73_cpuset_counts_where_the_quota_is_max(machine: Write) -> None:
    report = read(machine, "0::/\n", V2, {f"{G}/cpu.max": "max 100000", f"{G}/cpuset.cpus.effective": "3,7\n"})
    assert report.host.cpu.usable_cpus == 2.0


def test_bug_73_affinity_counts(machine: Write) -> None:
    report = read(machine, "0::/\n", V2, {}, **{"/proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-4\n"})
    assert report.host.cpu.usable_cpus == 5.0
    assert report.host.cpu.usable_cpus_source == "affinity"


def test_offline_cpus_of_a_mask_do_not_count(machine: Write) -> None:
    files = {"/sys/devices/system/cpu/online": "0-3", "/proc/self/status": "Cpus_allowed_list:\t2-9\n"}
    assert read(machine, "0::/\n", V2, files).host.cpu.usable_cpus == 2.0


def test_bug_74_the_limit_of_an_ancestor_holds(machine: Write) -> None:
    files = {
        f"{G}/a/b/memory.max": "max\n",
        f"{G}/a/memory.max": "9663676416\n",
        f"{G}/a/b/cpu.max": "max 100000",
        f"{G}/a/cpu.max": "300000 100000",
    }
    report = read(machine, "0::/a/b\n", V2, files)
    assert report.host.memory.usable_bytes == 9663676416
    assert report.host.memory.limit_source == f"{G}/a/memory.max"
    assert report.host.cpu.usable_cpus == 3.0


def test_bug_74_the_nearest_of_several_limits_need_not_be_the_least(machine: Write) -> None:
    files = {
        f"{G}/a/b/memory.max": "8000000000",
        f"{G}/a/memory.max": "4000000000",
        f"{G}/a/memory.high": "3000000000",
        f"{G}/a/memory.swap.max": "0",
    }
    report = read(machine, "0::/a/b\n", V2, files)
    assert report.host.memory.usable_bytes == 4000000000
    assert report.facts.limits.memory_high_bytes == 3000000000
    assert report.facts.limits.swap_bytes == 0


@pytest.mark.parametrize("path", ["/docker/x", "/system.slice/docker-x.scope", "/../../y", "/gone/away"])
def test_bug_75_a_path_that_the_mount_does_not_show(machine: Write, path: str) -> None:
    mounts = "30 25 0:30 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    report = read(machine, f"0::{path}\n", mounts, {f"{G}/memory.max": "1000000", f"{G}/cpu.max": "100000 100000"})
    assert report.host.memory.usable_bytes == 1000000
    assert report.host.cpu.usable_cpus == 1.0


def test_bug_75_a_group_below_the_mounts_root(machine: Write) -> None:
    mounts = "30 25 0:30 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    report = read(machine, "0::/docker/x/job\n", mounts, {f"{G}/memory.max": "2000000", f"{G}/job/memory.max": "1000000"})
    assert report.host.memory.usable_bytes == 1000000


@pytest.mark.parametrize("text", ["9223372036854771712", "9223372036854710272", "18446744073709551615"])
def test_bug_76_v1_numbers_that_mean_no_limit(machine: Write, text: str) -> None:
    memory = read(machine, "4:memory:/\n", v1("memory"), {f"{G}/memory/memory.limit_in_bytes": text}).host.memory
    assert memory.usable_bytes == memory.total_bytes
    assert memory.limit_source == "MemTotal"


def test_bug_77_hierarchical_limit_of_a_parent_out_of_sight(machine: Write) -> None:
    files = {
        f"{G}/memory/memory.limit_in_bytes": "9223372036854771712",
        f"{G}/memory/memory.stat": "cache 1\nhierarchical_memory_limit 536870912\n",
    }
    assert read(machine, "4:memory:/\n", v1("memory"), files).host.memory.usable_bytes == 536870912


def test_bug_78_hybrid_takes_each_controller_from_its_own_hierarchy(machine: Write) -> None:
    mounts = f"29 25 0:29 / {G}/unified rw - cgroup2 cgroup2 rw\n" + v1("memory", "cpu")
    files = {
        f"{G}/memory/y/memory.limit_in_bytes": "1000000",
        f"{G}/unified/x/memory.max": "5",
        f"{G}/cpu/cpu.cfs_quota_us": "200000",
        f"{G}/cpu/cpu.cfs_period_us": "100000",
    }
    report = read(machine, "5:memory:/y\n4:cpu:/\n0::/x\n", mounts, files)
    assert report.host.memory.usable_bytes == 1000000
    assert report.host.cpu.usable_cpus == 2.0


def test_bug_78_v2_holds_where_v1_has_no_such_controller(machine: Write) -> None:
    mounts = v1("name=systemd") + V2.replace("/sys/fs/cgroup", f"{G}/unified")
    assert read(machine, "1:name=systemd:/z\n0::/x\n", mounts, {f"{G}/unified/x/memory.max": "7000000"}).host.memory.usable_bytes == 7000000


def test_bug_79_no_file_at_the_root_and_a_limit_above_memtotal(machine: Write) -> None:
    memory = read(machine, "0::/\n", V2, {f"{G}/cgroup.controllers": "cpu memory"}).host.memory
    assert memory.usable_bytes == 64_000_000 * 1024
    assert memory.available_bytes == 32_000_000 * 1024
    above = read(machine, "0::/a\n", V2, {f"{G}/a/memory.max": str(1 << 50)}).host.memory
    assert above.usable_bytes == 64_000_000 * 1024


def test_bug_79_what_is_free_within_a_limit(machine: Write) -> None:
    files = {f"{G}/a/memory.max": "1000000", f"{G}/a/memory.current": "700000", f"{G}/a/memory.stat": "anon 1\ninactive_file 200000\n"}
    assert read(machine, "0::/a\n", V2, files).host.memory.available_bytes == 500000


def test_bug_80_lxcfs_shows_fewer_cpus_in_proc_than_sys_has(machine: Write) -> None:
    mounts = "60 50 0:60 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"
    report = read_host(machine(base(4) | {"/proc/self/mountinfo": mounts, "/sys/devices/system/cpu/online": "0-31"}))
    assert report.facts.lxcfs
    assert report.host.container == "lxc"
    assert (report.host.cpu.logical_cpus, report.host.cpu.usable_cpus, report.host.cpu.usable_cpus_source) == (32, 4.0, "lxcfs")


def test_bug_80_a_dead_lxcfs_is_an_error_on_open_and_no_more(machine: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine({"/sys/devices/system/cpu/online": "0-1", "/proc/meminfo": "MemTotal: 1 kB\n"})
    from advisor.probe import root as door

    real = door.open_without_waiting

    def refuse(path: Path) -> BinaryIO:
        if path.name in ("cpuinfo", "meminfo"):
            raise OSError(107, "Transport endpoint is not connected")
        return real(path)

    monkeypatch.setattr(door, "open_without_waiting", refuse)
    report = read_host(root)
    assert report.host.cpu.logical_cpus == 2
    assert report.host.memory.total_bytes is None


@pytest.mark.parametrize(
    ("name", "text"), [("cpu.max", ""), ("cpu.max", "garbage"), ("cpu.max", "100000 0"), ("memory.max", "   "), ("memory.max", "12cats")]
)
def test_bug_82_a_broken_file_limits_nothing_and_is_named(machine: Write, name: str, text: str) -> None:
    report = read(machine, "0::/\n", V2, {f"{G}/{name}": text})
    assert report.host.cpu.usable_cpus == 16.0
    assert report.host.memory.usable_bytes == 64_000_000 * 1024
    assert f"host.limits.{G}/{name}" in report.unknown


def test_spaces_around_a_number_are_no_fault(machine: Write) -> None:
    assert read(machine, "0::/\n", V2, {f"{G}/memory.max": "  1000000 \n"}).host.memory.usable_bytes == 1000000


def test_no_mounts_shown_falls_back_to_the_usual_places(machine: Write) -> None:
    assert read(machine, "", "", {f"{G}/cpu.max": "100000 100000"}).host.cpu.usable_cpus == 1.0
    assert read(machine, "", "", {f"{G}/cpu,cpuacct/cpu.cfs_quota_us": "150000"}).host.cpu.usable_cpus == 1.5


def test_an_old_cpuset_file_system(machine: Write) -> None:
    mounts = "40 25 0:40 / /dev/cpuset rw - cpuset none rw\n"
    assert read(machine, "3:cpuset:/half\n", mounts, {"/dev/cpuset/half/cpus": "0-7"}).host.cpu.usable_cpus == 8.0


def test_memory_before_linux_3_14_has_no_memavailable(machine: Write) -> None:
    text = "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 200 kB\n"
    assert read_host(machine({"/proc/meminfo": text})).host.memory.available_bytes == 310 * 1024


@pytest.mark.parametrize(
    ("files", "environ", "engine"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": "engine=podman"}, {}, "podman"),
        ({"/proc/self/cgroup": "5:memory:/kubepods/burstable/pod1/x\n"}, {}, "kubernetes"),
        ({"/proc/self/cgroup": "5:memory:/docker/abc\n"}, {}, "docker"),
        ({"/proc/self/cgroup": "0::/lxc.payload.web\n"}, {}, "lxc"),
        ({"/proc/self/cgroup": "0::/\n"}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": "1 0 0:1 / / rw - overlay overlay rw\n"}, {}, "container"),
        ({"/proc/self/cgroup": "0::/user.slice\n"}, {}, "none"),
        ({}, {}, None),
    ],
)
def test_containers(machine: Write, files: dict[str, str], environ: dict[str, str], engine: str | None) -> None:
    assert read_host(machine(files, environ)).host.container == engine


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"/proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n"}, "wsl"),
        ({"/proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"}, "gvisor"),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "qemu"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/class/dmi/id/product_name": "c7g.metal\n"}, "none"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/class/dmi/id/product_name": "c7g.large\n"}, "kvm"),
        ({"/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t: lm hypervisor\n"}, "vm"),
        ({"/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t: lm\n"}, "none"),
        (
            {
                "/proc/cpuinfo": "vendor_id       : IBM/S390\nprocessor 0: machine = 3931\n",
                "/proc/sysinfo": "VM00 Control Program: z/VM 7.2\n",
            },
            "zvm",
        ),
        ({}, None),
    ],
)
def test_virtualization(machine: Write, files: dict[str, str], name: str | None) -> None:
    assert read_host(machine(files)).host.virtualization == name


def test_a_host_that_runs_lxcfs_is_no_container(machine: Write) -> None:
    mounts = "60 50 0:60 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"
    report = read_host(machine(base(4) | {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": "0::/user.slice\n"}))
    assert not report.facts.lxcfs
    assert report.host.container == "none"
