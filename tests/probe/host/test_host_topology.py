"""CPUs online, cores, sockets, caches, NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable

from advisor.probe.host import read_host
from advisor.probe.root import Root

Write = Callable[..., Root]
CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"


def cpuinfo(count: int, **fields: str) -> str:
    extra = "".join(f"{key.replace('_', ' ')}\t: {value}\n" for key, value in fields.items())
    return "".join(f"processor\t: {i}\nvendor_id\t: GenuineIntel\nflags\t: fpu lm\n{extra}\n" for i in range(count))


def topology(cpus: dict[int, tuple[int, int]], **lists: dict[int, str]) -> dict[str, str]:
    files = {}
    for cpu, (package, core) in cpus.items():
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{package}\n"
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = f"{core}\n"
    for name, values in lists.items():
        files |= {f"{CPU}/cpu{cpu}/topology/{name}": f"{text}\n" for cpu, text in values.items()}
    return files


def test_bug_67_core_ids_repeat_in_every_package(machine: Write) -> None:
    cpu = read_host(machine(topology({i: (i // 4, i % 4) for i in range(8)}))).host.cpu
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cpus) == (2, 8, 8)


def test_bug_67_core_ids_repeat_on_every_die(machine: Write) -> None:
    files = topology({i: (0, i % 2) for i in range(4)})
    files |= {f"{CPU}/cpu{i}/topology/die_id": f"{i // 2}\n" for i in range(4)}
    assert read_host(machine(files)).host.cpu.physical_cores == 4


def test_threads_of_a_core_count_once(machine: Write) -> None:
    lists = {i: f"{i % 2},{i % 2 + 2}" for i in range(4)}
    cpu = read_host(machine(topology({i: (0, i % 2) for i in range(4)}, core_cpus_list=lists))).host.cpu
    assert (cpu.physical_cores, cpu.logical_cpus) == (2, 4)


def test_bug_68_no_package_numbers_on_arm(machine: Write) -> None:
    text = "".join(f"processor\t: {i}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\n" for i in range(4))
    files = {"/proc/cpuinfo": text} | topology({i: (-1, i) for i in range(4)}, thread_siblings_list={i: str(i) for i in range(4)})
    cpu = read_host(machine(files)).host.cpu
    assert (cpu.sockets, cpu.physical_cores) == (1, 4)


def test_bug_68_offline_cpus_are_listed_apart(machine: Write) -> None:
    files = {f"{CPU}/online": "0-3,5-7\n", f"{CPU}/present": "0-7\n", f"{CPU}/possible": "0-63\n", "/proc/cpuinfo": cpuinfo(8)}
    report = read_host(machine(files | topology({i: (0, i) for i in range(8)})))
    assert report.host.cpu.logical_cpus == 7
    assert report.host.cpu.physical_cores == 7
    assert report.facts.offline_cpus == (4,)


def test_bug_69_eleven_hundred_cpus(machine: Write) -> None:
    cpu = read_host(machine({f"{CPU}/online": "0-1151\n"})).host.cpu
    assert (cpu.logical_cpus, cpu.usable_cpus) == (1152, 1152.0)


def test_bug_70_no_sys_at_all(machine: Write) -> None:
    report = read_host(machine({"/proc/cpuinfo": cpuinfo(3)}))
    assert report.host.cpu.logical_cpus == 3
    assert report.host.cpu.physical_cores is None
    assert "sysfs_absent" in report.unknown["host.cpu.physical_cores"]


def test_bug_71_sparse_nodes_and_nodes_without_cpus_or_memory(machine: Write) -> None:
    files = {f"{NODE}/online": "0,8,252-255\n"}
    for node, cpus in ((0, "0-1"), (8, "2-3"), (252, ""), (255, "")):
        files[f"{NODE}/node{node}/cpulist"] = f"{cpus}\n"
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:   {0 if node == 8 else 1024} kB\n"
    nodes = read_host(machine(files)).host.cpu.numa_nodes
    assert [(node.id, node.cpus, node.memory_bytes) for node in nodes] == [
        (0, (0, 1), 1 << 20),
        (8, (2, 3), 0),
        (252, (), 1 << 20),
        (255, (), 1 << 20),
    ]


def test_bug_7_and_83_gpu_memory_nodes_are_not_host_memory(machine: Write) -> None:
    files = {
        "/proc/cpuinfo": "processor\t: 0\ncpu\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n",
        "/proc/meminfo": "MemTotal:  5000 kB\nMemAvailable:  4900 kB\n",
    }
    for node, cpus, size in ((0, "0", 1000), (255, "", 4000)):
        files[f"{NODE}/node{node}/cpulist"] = cpus
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal: {size} kB\n"
    report = read_host(machine(files))
    assert report.facts.gpu_numa_nodes == (255,)
    assert report.host.memory.total_bytes == 5000 * 1024
    assert report.host.memory.usable_bytes == 1000 * 1024
    assert report.host.memory.limit_source == "MemTotal less GPU memory nodes"


def test_bug_7_the_driver_names_its_nodes(machine: Write) -> None:
    files = {f"{NODE}/node0/cpulist": "0-71", f"{NODE}/node1/cpulist": "", f"{NODE}/node2/cpulist": ""}
    files["/proc/driver/nvidia/gpus/0009:01:00.0/numa_status"] = "Node:  1\nStatus: online\n"
    assert read_host(machine(files)).facts.gpu_numa_nodes == (1,)


def test_cpus_of_nodes_count_where_nothing_else_does(machine: Write) -> None:
    assert read_host(machine({f"{NODE}/node0/cpulist": "0-71\n", f"{NODE}/node1/cpulist": "\n"})).host.cpu.logical_cpus == 72


def test_bug_84_no_online_file_means_online(machine: Write) -> None:
    files = topology({0: (0, 0), 1: (0, 1)}) | {f"{CPU}/cpu1/online": "0\n"}
    assert read_host(machine(files)).host.cpu.logical_cpus == 1


def test_books_and_drawers_make_packages_distinct(machine: Write) -> None:
    files = topology({0: (0, 0), 1: (0, 1)})
    files |= {f"{CPU}/cpu{i}/topology/book_id": f"{i}\n" for i in range(2)}
    assert read_host(machine(files)).host.cpu.sockets == 2


def test_caches_are_counted_by_what_shares_them(machine: Write) -> None:
    files = topology({i: (0, i) for i in range(4)}, core_cpus_list={i: str(i) for i in range(4)})
    for cpu in range(4):
        for index, (level, kind, size, shared) in enumerate(
            ((1, "Data", "32K", str(cpu)), (2, "Unified", "1024K", str(cpu)), (3, "Unified", "16M", "0-1" if cpu < 2 else "2-3"))
        ):
            folder = f"{CPU}/cpu{cpu}/cache/index{index}"
            files |= {f"{folder}/level": f"{level}", f"{folder}/type": kind, f"{folder}/size": size, f"{folder}/shared_cpu_list": shared}
    caches = read_host(machine(files)).host.cpu.caches
    assert [(c.level, c.kind, c.size_bytes, c.count, c.shared_by) for c in caches] == [
        (1, "data", 32 << 10, 4, 1),
        (2, "unified", 1 << 20, 4, 1),
        (3, "unified", 16 << 20, 2, 2),
    ]


def test_hybrid_kinds_by_the_kernels_lists_and_by_threads(machine: Write) -> None:
    listed = {"/proc/cpuinfo": cpuinfo(6), f"{CPU}/online": "0-5", "/sys/devices/cpu_core/cpus": "0-3", "/sys/devices/cpu_atom/cpus": "4-5"}
    assert [(c.name, c.count) for c in read_host(machine(listed)).host.cpu.clusters] == [("P-core", 4), ("E-core", 2)]
    lists = {0: "0-1", 1: "0-1", 2: "2", 3: "3"}
    by_threads = {"/proc/cpuinfo": cpuinfo(4)} | topology({i: (0, i) for i in range(4)}, core_cpus_list=lists)
    by_threads[f"{CPU}/cpu2/cache/index2/shared_cpu_list"] = "2-3"
    assert [(c.name, c.count) for c in read_host(machine(by_threads)).host.cpu.clusters] == [("P-core", 2), ("E-core", 2)]
    alike = {"/proc/cpuinfo": cpuinfo(2)} | topology({0: (0, 0), 1: (0, 1)}, core_cpus_list={0: "0", 1: "1"})
    assert read_host(machine(alike)).host.cpu.clusters == ()


def test_white_space_that_is_no_blank_is_no_number(machine: Write) -> None:
    files = topology({0: (0, 0)}) | {f"{CPU}/cpu0/cache/index0/level": "\x85", f"{CPU}/cpu0/cache/index0/size": "32K"}
    assert read_host(machine(files)).host.cpu.caches == ()
