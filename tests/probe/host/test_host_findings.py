"""Each finding about the host: what brings it about, and that its absence does not."""

# ruff: noqa: E501 - tables of small machines read best one a line
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.probe.findings import Context, find_all, openmp
from advisor.probe.findings.environment import visible_items
from advisor.probe.findings.packages import has_kernel
from advisor.probe.host import read_host
from advisor.probe.records import Device, Finding, Framework
from advisor.probe.root import Root

Write = Callable[..., Root]
CPU = "/sys/devices/system/cpu"
G = "/sys/fs/cgroup"
V2 = {"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": f"30 25 0:30 / {G} rw - cgroup2 cgroup2 rw\n"}
FLAGS = "fpu lm avx avx2 fma f16c"
HOST = {
    "/proc/cpuinfo": "".join(
        f"processor\t: {i}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 63\nstepping\t: 2\nflags\t: {FLAGS}\n\n" for i in range(8)
    ),
    "/proc/meminfo": "MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\nSwapTotal: 8000000 kB\n",
    f"{CPU}/online": "0-7\n",
}
GPU = Device(id="0000:01:00.0", target="cuda", vendor="NVIDIA", name="A GPU", arch="sm_90", state="usable")
AMD = replace(GPU, target="rocm", vendor="AMD", arch="gfx942")


def findings(machine: Write, files: dict[str, str] | None = None, **more: Any) -> dict[str, Finding]:
    environ = more.pop("environ", {})
    root = machine(HOST | (files or {}), environ)
    report = read_host(root)
    facts = replace(report.facts, **more.pop("facts", {}))
    context = Context(root=root, host=report.host, facts=facts, **more)
    found = {finding.code: finding for finding in find_all(context)}
    assert "FINDER_FAILED" not in found
    return found


def test_a_sound_machine_has_none(machine: Write) -> None:
    assert findings(machine) == {}


MEMINFO = "MemTotal: 64000000 kB\nMemAvailable: {} kB\nSwapTotal: {} kB\nHugePages_Total: {}\nHugepagesize: 2048 kB\n"
FROM_FILES: list[tuple[str, dict[str, str]]] = [
    ("CPU_QUOTA", V2 | {f"{G}/cpu.max": "250000 100000"}),
    ("CPU_QUOTA_BELOW_ONE", V2 | {f"{G}/cpu.max": "20000 100000"}),
    ("CPUSET_NARROW", V2 | {f"{G}/cpuset.cpus.effective": "0-1"}),
    ("AFFINITY_NARROW", {"/proc/self/status": "Cpus_allowed_list:\t0-1\n"}),
    ("CPUS_OFFLINE", {f"{CPU}/online": "0-6", f"{CPU}/present": "0-7"}),
    ("CPUS_ISOLATED", {f"{CPU}/isolated": "4-7"}),
    ("CPU_GOVERNOR", {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave", f"{CPU}/cpu0/cpufreq/scaling_driver": "acpi-cpufreq"}),
    ("CPU_ENERGY_PREFERENCE", {f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate", f"{CPU}/cpu0/cpufreq/energy_performance_preference": "power"}),
    ("CPU_BOOST_OFF", {f"{CPU}/intel_pstate/no_turbo": "1"}),
    ("CPU_CLOCK_CAPPED", {f"{CPU}/cpu0/cpufreq/scaling_max_freq": "1000000", f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3000000"}),
    ("LXCFS", {"/proc/self/mountinfo": "60 50 0:60 / /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"}),
    ("ISA_MASKED", {"/proc/cpuinfo": HOST["/proc/cpuinfo"].replace(FLAGS, "fpu lm avx hypervisor")}),
    ("NO_AVX2", {"/proc/cpuinfo": HOST["/proc/cpuinfo"].replace(FLAGS, "fpu lm")}),
    ("MEMORY_LIMIT", V2 | {f"{G}/memory.max": "16000000000"}),
    ("MEMORY_LITTLE", V2 | {f"{G}/memory.max": "1000000000"}),
    ("MEMORY_HIGH", V2 | {f"{G}/memory.high": "9000000000"}),
    ("MEMORY_BUSY", {"/proc/meminfo": MEMINFO.format(1000, 8, 0)}),
    ("SWAP_NONE", {"/proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 15000000 kB\nSwapTotal: 0 kB\n"}),
    ("SWAP_FORBIDDEN", V2 | {f"{G}/memory.swap.max": "0"}),
    ("SHM_SMALL", {"/proc/self/mountinfo": "25 24 0:23 / /dev/shm rw - tmpfs shm rw,size=65536k\n"}),
    ("THP_NEVER", {"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}),
    ("THP_DEFRAG_ALWAYS", {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] never", "/sys/kernel/mm/transparent_hugepage/defrag": "[always] never"}),
    ("HUGEPAGES_RESERVED", {"/proc/meminfo": MEMINFO.format(60000000, 8, 8192)}),
    ("HUGEPAGES_RESERVED", {"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "16"}),
    ("OVERCOMMIT_STRICT", {"/proc/sys/vm/overcommit_memory": "2"}),
    ("ULIMIT_ADDRESS_SPACE", {"/proc/self/limits": "Max address space         8000000000           unlimited            bytes\n"}),
    ("ULIMIT_MEMLOCK", {"/proc/self/limits": "Max locked memory         65536                65536                bytes\n", "/sys/class/infiniband/mlx5_0/x": ""}),
    ("ULIMIT_NOFILE", {"/proc/self/limits": "Max open files            1024                 4096                 files\n"}),
    ("NUMA_CPULESS_NODES", {"/sys/devices/system/node/node0/cpulist": "0-7", "/sys/devices/system/node/node1/cpulist": ""}),
    ("NUMA_MEMORYLESS_NODES", {"/sys/devices/system/node/node0/cpulist": "0-7", "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 0 kB"}),
    ("NUMA_BALANCING", {f"/sys/devices/system/node/node{i}/cpulist": f"{i}" for i in range(2)} | {"/proc/sys/kernel/numa_balancing": "1"}),
    ("CLOCKSOURCE_SLOW", {"/sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}),
    ("CPU_VULNERABLE", {f"{CPU}/vulnerabilities/spectre_v2": "Vulnerable"}),
    ("MITIGATION_PTI", {f"{CPU}/vulnerabilities/meltdown": "Mitigation: PTI"}),
    ("MITIGATION_GDS", {f"{CPU}/vulnerabilities/gather_data_sampling": "Mitigation: Microcode"}),
    ("GVISOR", {"/proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"}),
    ("WSL", {"/proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2"}),
    ("PIDS_LIMIT", V2 | {f"{G}/pids.max": "100"}),
    ("SYSTEM_32_BIT", {"/proc/cpuinfo": HOST["/proc/cpuinfo"].replace(FLAGS, "fpu avx")}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "files"), FROM_FILES, ids=[f"{code}-{index}" for index, (code, _) in enumerate(FROM_FILES)])
def test_from_files(machine: Write, code: str, files: dict[str, str]) -> None:
    found = findings(machine, files)
    assert code in found
    finding = found[code]
    assert finding.severity in ("info", "warning", "error")
    assert finding.evidence
    assert finding.fix
    assert finding.message.endswith(".")


FROM_VARIABLES: list[tuple[str, dict[str, str], tuple[Device, ...]]] = [
    ("THREADS_ABOVE_USABLE", {"OMP_NUM_THREADS": "64"}, ()),
    ("THREADS_MALFORMED", {"MKL_NUM_THREADS": "many"}, ()),
    ("THREADS_ONE", {"OMP_NUM_THREADS": "1"}, ()),
    ("ISA_CAPPED", {"ATEN_CPU_CAPABILITY": "avx2"}, ()),
    ("ISA_CAPPED", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, ()),
    ("ISA_CAPPED", {"OPENBLAS_CORETYPE": "Haswell"}, ()),
    ("ISA_CAPPED", {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F"}, ()),
    ("NCCL_P2P_DISABLE", {"NCCL_P2P_DISABLE": "1"}, ()),
    ("NCCL_IB_DISABLE", {"NCCL_IB_DISABLE": "1"}, ()),
    ("CUDA_LAUNCH_BLOCKING", {"CUDA_LAUNCH_BLOCKING": "1"}, ()),
    ("NVIDIA_TF32_OVERRIDE", {"NVIDIA_TF32_OVERRIDE": "0"}, ()),
    ("VISIBLE_DEVICES_EMPTY", {"CUDA_VISIBLE_DEVICES": ""}, (GPU,)),
    ("VISIBLE_DEVICES_EMPTY", {"CUDA_VISIBLE_DEVICES": "-1"}, (GPU,)),
    ("VISIBLE_DEVICES_EMPTY", {"HIP_VISIBLE_DEVICES": ""}, (AMD,)),
    ("VISIBLE_DEVICES_ODD", {"CUDA_VISIBLE_DEVICES": "0,x"}, (GPU, GPU)),
    ("VISIBLE_DEVICES_ODD", {"CUDA_VISIBLE_DEVICES": "3"}, (GPU,)),
    ("VISIBLE_DEVICES_SUBSET", {"CUDA_VISIBLE_DEVICES": "0"}, (GPU, GPU)),
    ("VISIBLE_DEVICES_CONFLICT", {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, (AMD, AMD, AMD)),
    ("JAX_PLATFORMS_PINNED", {"JAX_PLATFORMS": "cpu"}, (GPU,)),
    ("JAX_PREALLOCATION_OFF", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, ()),
    ("LD_PRELOAD_MISSING", {"LD_PRELOAD": "/no/such/lib.so"}, ()),
    ("LD_PRELOAD_TWICE", {"LD_PRELOAD": "libjemalloc.so.2:libtcmalloc.so.4"}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("code", "environ", "devices"), FROM_VARIABLES, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(FROM_VARIABLES)])
def test_from_variables(machine: Write, code: str, environ: dict[str, str], devices: tuple[Device, ...]) -> None:
    found = findings(machine, environ=environ, devices=devices)
    assert code in found
    assert found[code].evidence
    assert found[code].fix


@pytest.mark.parametrize(
    "environ",
    [
        {"NCCL_P2P_DISABLE": "0"},
        {"OMP_NUM_THREADS": "8"},
        {"OMP_NUM_THREADS": "4,2"},
        {"ATEN_CPU_CAPABILITY": "avx512"},
        {"LD_PRELOAD": "libjemalloc.so.2"},
    ],
)
def test_harmless_variables_are_no_finding(machine: Write, environ: dict[str, str]) -> None:
    assert findings(machine, environ=environ) == {}


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("0,2,-1,1", ["0", "2"]),
        ("", []),
        ("-1", []),
        ("0,0", []),
        ("GPU-8932f937,1", ["GPU-8932f937", "1"]),
        ("MIG-4a1b22c3-1111-2222-3333-444455556666", ["MIG-4a1b22c3-1111-2222-3333-444455556666"]),
        ("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", ["MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0"]),
        ("none", []),
    ],
)
def test_bug_8_the_rule_of_cuda_visible_devices(text: str, items: list[str]) -> None:
    assert visible_items(text) == items


@pytest.mark.parametrize(
    ("capability", "archs", "runs"),
    [
        ((12, 0), ["sm_50", "sm_80", "sm_86", "sm_90"], False),
        ((8, 9), ["sm_80", "sm_86"], True),
        ((10, 3), ["sm_100a"], False),
        ((10, 0), ["sm_100a"], True),
        ((10, 3), ["sm_100f"], True),
        ((12, 0), ["sm_90", "compute_90"], True),
        ((8, 0), ["sm_86"], False),
        ((7, 0), ["compute_80"], False),
        ((9, 0), [], False),
    ],
)
def test_bug_24_which_code_runs_on_which_gpu(capability: tuple[int, int], archs: list[str], runs: bool) -> None:
    assert has_kernel(capability, archs) is runs


def torch(build: str, **details: Any) -> Framework:
    return Framework(name="torch", version="2.8.0", state="usable", reason=None, targets=("cpu-x86",), build=build, details=details)


PACKAGES: list[tuple[str, dict[str, str], tuple[Device, ...], tuple[Framework, ...]]] = [
    ("TORCH_CPU_ONLY", {"torch": "2.8.0+cpu", "numpy": "2"}, (GPU,), ()),
    ("TORCH_CPU_ONLY", {"torch": "2.8.0", "numpy": "2"}, (AMD,), (torch("cpu"),)),
    ("TORCH_WRONG_BUILD", {"torch": "2.8.0", "numpy": "2"}, (AMD,), (torch("cuda"),)),
    ("TORCH_NO_KERNEL", {"torch": "2.8.0", "numpy": "2"}, (replace(GPU, arch="sm_120"),), (torch("cuda", arch_list=["sm_80", "sm_90"]),)),
    ("TORCH_WITHOUT_NUMPY", {"torch": "2.8.0"}, (), ()),
    ("TORCHVISION_MISMATCH", {"torch": "2.8.0", "torchvision": "0.22.1", "numpy": "2"}, (), ()),
    ("JAX_CPU_ONLY", {"jax": "0.6.0"}, (GPU,), ()),
    ("ORT_CPU_ONLY", {"onnxruntime": "1.22"}, (GPU,), ()),
    ("ORT_CONFLICT", {"onnxruntime": "1.22", "onnxruntime-gpu": "1.22"}, (), ()),
    ("TENSORFLOW_CPU_ONLY", {"tensorflow-cpu": "2.19"}, (GPU,), ()),
    ("TENSORFLOW_CONFLICT", {"tensorflow": "2.19", "tensorflow-cpu": "2.19"}, (), ()),
    ("PYNVML_DEPRECATED", {"pynvml": "11.5.0"}, (), ()),
    ("AMDSMI_WITHOUT_ROCM", {"amdsmi": "6.2"}, (), ()),
    ("FOREIGN_MICROBENCH", {"microbench": "1.0"}, (), ()),
    ("JAX_PREALLOCATION", {"jax": "0.6", "jax-cuda12-plugin": "0.6", "torch": "2.8", "numpy": "2"}, (GPU,), ()),
    ("FRAMEWORK_BROKEN", {}, (), (Framework(name="jax", version="0.6", state="crashed", reason="killed by SIGABRT", fix="pip install jax"),)),
    ("FRAMEWORK_LACKS_LIBRARY", {}, (), (Framework(name="tvm", version="1", state="no_library", reason="libcuda.so.1", fix="install it"),)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "packages", "devices", "frameworks"), PACKAGES, ids=[f"{row[0]}-{i}" for i, row in enumerate(PACKAGES)])
def test_from_packages(
    machine: Write, code: str, packages: dict[str, str], devices: tuple[Device, ...], frameworks: tuple[Framework, ...]
) -> None:
    found = findings(machine, packages=packages, devices=devices, frameworks=frameworks)
    assert code in found
    assert found[code].fix


def test_matching_packages_are_no_finding(machine: Write) -> None:
    packages = {"torch": "2.8.0+cu128", "torchvision": "0.23.0", "numpy": "2.0", "onnxruntime": "1.22", "nvidia-ml-py": "12.0"}
    assert findings(machine, packages=packages, frameworks=(torch("cuda", arch_list=["sm_90"]),)) == {}


def test_bug_64_amx_without_permission(machine: Write) -> None:
    found = findings(machine, facts={"amx_permission": False, "amx_reason": "a sandbox or seccomp filter refuses it"})
    assert "seccomp" in (found["AMX_NOT_PERMITTED"].evidence or "")


def test_gpu_memory_nodes(machine: Write) -> None:
    files = {"/sys/devices/system/node/node0/cpulist": "0-7", "/sys/devices/system/node/node1/cpulist": ""}
    found = findings(machine, files, facts={"gpu_numa_nodes": (1,)})
    assert "NUMA_GPU_MEMORY" in found
    assert "NUMA_CPULESS_NODES" not in found


def test_two_openmp_runtimes_are_found_where_wheels_put_them(tmp_path: Any) -> None:
    for path in (
        "torch/lib/libgomp-a34b3233.so.1",
        "scikit_learn.libs/libgomp-d22c30c5.so.1.0.0",
        "daal.libs/libiomp5.so",
        "x.libs/libz.so.1",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    found = openmp.runtimes_in([str(tmp_path)])
    assert {name: sorted(owners) for name, owners in found.items()} == {
        "GNU libgomp": ["scikit_learn", "torch"],
        "Intel libiomp5": ["daal"],
    }


def test_a_failing_finder_costs_its_own_answer_only(machine: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(context: Context) -> list[Finding]:
        raise ValueError("a defect")

    def works(context: Context) -> list[Finding]:
        return [Finding(code="WORKS", severity="info", message="It works.")]

    monkeypatch.setattr("advisor.probe.findings.discover", lambda package, attribute: ((fails, works),))
    root = machine(HOST)
    report = read_host(root)
    found = find_all(Context(root=root, host=report.host, facts=report.facts))
    assert [finding.code for finding in found] == ["FINDER_FAILED", "WORKS"]
    assert "a defect" in (found[0].evidence or "")


def test_container_without_threads_is_told_only_live() -> None:
    from advisor.probe.findings.cpus import threads

    report = read_host(Root.live())
    cpu = replace(report.host.cpu, logical_cpus=8, usable_cpus=2.5)
    host = replace(report.host, cpu=cpu, container="docker")
    context = Context(root=Root(Root.live().base, {}), host=host, facts=replace(report.facts, affinity=None))
    assert [finding.code for finding in threads(context)] == ["THREADS_UNSET_IN_CONTAINER"]
    assert "=3" in (next(iter(threads(context))).fix or "")
    masked = replace(context, facts=replace(report.facts, affinity=(0, 1, 2)))
    assert list(threads(masked)) == []
