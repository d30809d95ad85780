"""No tree and no text makes the probe of a host raise: random content in the files it reads, random names, links in circles."""

# ruff: noqa: E501 - tables of file names and words
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.probe.findings import Context, find_all
from advisor.probe.host import read_host
from advisor.probe.host._cpuinfo import parse_cpuinfo
from advisor.probe.host._identify import identify
from advisor.probe.root import Root

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
G = "sys/fs/cgroup"

FILES = [
    "proc/cpuinfo", "proc/meminfo", "proc/version", "proc/self/status", "proc/self/cgroup", "proc/self/mountinfo", "proc/self/limits",
    "proc/mounts", "proc/sys/kernel/osrelease", "proc/sys/kernel/arch", "proc/sysinfo", "proc/loadavg", "proc/device-tree/compatible",
    "proc/device-tree/model", "proc/driver/nvidia/gpus/x/numa_status", "tools/sysctl-a.txt",
    f"{CPU}/online", f"{CPU}/present", f"{CPU}/isolated", f"{CPU}/cpu0/online", f"{CPU}/cpu0/topology/core_id",
    f"{CPU}/cpu0/topology/physical_package_id", f"{CPU}/cpu0/topology/core_cpus_list", f"{CPU}/cpu1/topology/thread_siblings",
    f"{CPU}/cpu1/topology/package_cpus_list", f"{CPU}/cpu0/cache/index0/size", f"{CPU}/cpu0/cache/index0/level",
    f"{CPU}/cpu0/cache/index0/type", f"{CPU}/cpu0/cache/index0/shared_cpu_list", f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq",
    f"{CPU}/cpu0/cpufreq/scaling_governor", "sys/devices/cpu_core/cpus", "sys/devices/cpu_atom/cpus", f"{NODE}/node0/cpulist",
    f"{NODE}/node255/cpumap", f"{NODE}/node0/meminfo", f"{G}/cpu.max", f"{G}/memory.max", f"{G}/memory.stat", f"{G}/a/memory.max",
    f"{G}/cpuset.cpus.effective", f"{G}/cpu/cpu.cfs_quota_us", f"{G}/cpu/cpu.cfs_period_us", f"{G}/memory/memory.limit_in_bytes",
    f"{G}/pids.max", "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name", "sys/hypervisor/type",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/devices/system/clocksource/clocksource0/current_clocksource", f"{CPU}/vulnerabilities/meltdown",
]  # fmt: skip

#: Words that lead into the parsers, so that random text gets past their first test.
WORDS = [
    "0-3", "0-99999999999", "-1", "max", "max 100000", "100000 100000", "0", "ffffffff", "f,0,f", "1e99", "18446744073709551615", "9" * 30,
    "processor\t: 0", "processor : 99999999", "cpu part : 0xZZ", "CPU implementer\t: 0x41", "CPU part\t: 0xd0c", "flags : fpu lm", "isa : rv",
    "Features : fp", "vendor_id : GenuineIntel", "cpu family : x", "model : -3", "cpu : POWER9", "# processors : 0", "processor 0: machine = 1",
    "MemTotal: 999 kB", "MemTotal: kB", "0::/../..", "0::/a/b", "4:memory,cpu:/", "5:cpuset:/x", "Cpus_allowed_list: ,,",
    "30 25 0:30 / /sys/fs/cgroup rw - cgroup2 c rw", "30 25 0:30 /x /sys/fs/cgroup/../.. rw - cgroup c rw,memory,cpu", "1 2 - cgroup2",
    "Max open files  12  x", "hierarchical_memory_limit 5", "hw.nperflevels: 99", "vm.swapusage: total = .M", "\0", "\x85", "é", "²",
]  # fmt: skip

LINES = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=12)), max_size=5).map("\n".join)


def probe(base: Path) -> None:
    root = Root(base)
    report = read_host(root)
    found = find_all(Context(root=root, host=report.host, facts=report.facts))
    assert not [finding for finding in found if finding.code == "FINDER_FAILED"], found
    usable, online = report.host.cpu.usable_cpus, report.host.cpu.logical_cpus
    assert usable is None or usable > 0
    assert usable is None or online is None or usable <= online
    memory = report.host.memory
    assert memory.total_bytes is None or memory.usable_bytes is None or memory.usable_bytes <= memory.total_bytes


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FILES), LINES, max_size=12))
def test_no_tree_makes_it_raise(files: dict[str, str]) -> None:
    base = Path(tempfile.mkdtemp(prefix="advisor-tree-"))
    try:
        for name, text in files.items():
            path = base / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode("utf-8", "surrogatepass"))
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        probe(base)
    finally:
        shutil.rmtree(base)


@settings(max_examples=500, deadline=None)
@given(
    LINES,
    st.sampled_from([None, "x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "mips", "sparc64", "ia64", "alpha", "loongarch64", "m68k"]),
)
def test_no_cpuinfo_makes_it_raise(text: str, machine: str | None) -> None:
    identify(Root(Path("/nonexistent-advisor-root")), parse_cpuinfo(text), machine)


def test_folders_where_files_belong_and_links_in_circles(tmp_path: Path) -> None:
    for name in FILES[::2]:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name in FILES[1::2]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to(path)
    probe(tmp_path)


def test_binary_files(tmp_path: Path) -> None:
    for index, name in enumerate(FILES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            path.write_bytes(bytes((index * 7 + byte) % 256 for byte in range(300)))
    probe(tmp_path)
