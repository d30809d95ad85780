"""Write this machine down as a folder that ``--root`` reads, without serial numbers, so that it can go with a bug report.

Only what the probe reads is copied, as plain files: /proc and /sys hold much more, and some of it is secret. Links inside /sys that the
probe follows (``driver``, ``subsystem``, ``iommu_group``) are kept as links. Device nodes become
empty files. Tools' output goes to ``tools/``.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from pathlib import Path

from advisor.errors import UsageError
from advisor.probe._scrub import scrub
from advisor.probe.accelerators.ids import identify, identify_text
from advisor.probe.root import Root

_MAX_FILE = 1 << 20
_MAX_FILES = 40_000

#: Files and folders below /proc.
_PROC = (
    "cpuinfo", "meminfo", "version", "loadavg", "self/status", "self/cgroup", "self/limits",
    "sys/kernel/osrelease", "sys/kernel/arch", "sys/kernel/numa_balancing", "sys/vm/overcommit_memory", "sysinfo", "driver/nvidia/version",
    "device-tree/model", "device-tree/compatible", "device-tree/hypervisor/compatible", "ppc64/lparcfg",
)  # fmt: skip

#: Trees below /sys, with the names of files wanted in them (patterns); ``*`` is every file.
_SYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("devices/system/cpu", (
        "online", "offline", "present", "possible", "isolated", "*_id", "*_list", "thread_siblings", "level", "type", "size",
        "shared_cpu_map",
        "cpuinfo_max_freq", "scaling_governor", "scaling_driver", "scaling_max_freq", "energy_performance_preference", "cpu_capacity",
        "no_turbo", "boost", "control", "active", "meltdown", "gather_data_sampling", "spectre_*", "mds", "l1tf", "retbleed",
    )),
    ("devices/system/node", ("online", "possible", "has_*", "cpulist", "cpumap", "distance", "meminfo")),
    ("devices/system/clocksource", ("current_clocksource", "available_clocksource")),
    ("kernel/mm/hugepages", ("*",)),
    ("kernel/mm/transparent_hugepage", ("enabled", "defrag")),
    ("class/dmi/id", ("sys_vendor", "product_name", "product_family", "bios_vendor", "board_vendor", "board_name")),
    ("devices/cpu_core", ("cpus",)),
    ("devices/cpu_atom", ("cpus",)),
    ("devices/cpu_lowpower", ("cpus",)),
    ("hypervisor", ("type",)),
    ("module/nvidia", ("version",)),
    ("module/amdgpu", ("version",)),
    ("module/ttm/parameters", ("pages_limit",)),
    ("kernel/debug/rknpu", ("load",)),
    ("class/kfd/kfd/topology", ("*",)),
)  # fmt: skip

#: Files of a PCI device, an accelerator or a graphics card.
_DEVICE_FILES = (
    "vendor", "device", "subsystem_vendor", "subsystem_device", "class", "revision", "numa_node", "current_link_speed",
    "current_link_width",
    "max_link_speed", "max_link_width", "mem_info_*", "enable", "modalias", "uevent", "pp_dpm_*", "current_compute_partition",
    "current_memory_partition", "module_id", "device_type", "armed", "status",
)  # fmt: skip

_LINKS = ("driver", "subsystem", "iommu_group", "device", "physfn")

#: Parameters of the kernel's command line that the probe reads or that explain what it finds; others may hold names and secrets.
_PARAMETERS = re.compile(
    r"(?:ttm|amdgpu|amd_iommu|intel_iommu|iommu|iommu\.passthrough|isolcpus|nohz_full|nosmt|maxcpus|nr_cpus|mitigations|hugepages|"
    r"hugepagesz|default_hugepagesz|transparent_hugepage|numa_balancing|numa|mem|pci|pcie_aspm|nouveau\.modeset|clocksource|tsc)(?:\.\w+)?(?:=\S*)?"
)

#: Places whose being there says something, whatever they hold.
_MARKERS = (
    "/var/run/secrets/kubernetes.io", "/sys/module/nvidia", "/sys/module/nvgpu", "/sys/module/rknpu", "/sys/bus/platform/drivers/RKNPU",
)  # fmt: skip

#: Classes of PCI devices worth keeping: display, processing accelerators, bridges of the fabric, and InfiniBand.
_PCI_CLASSES = ("0x03", "0x12", "0x0b", "0x0207", "0x068", "0x0880")

_NODES = (
    "nvidia*",
    "kfd",
    "dxg",
    "davinci*",
    "hisi_hdc",
    "devmm_svm",
    "neuron*",
    "apex_*",
    "accel*",
    "ipu*",
    "nvhost*",
    "nvmap",
    "hl*",
    "mali*",
)
_NODE_FOLDERS = ("dri", "accel", "vfio", "nvidia-caps", "tenstorrent", "infiniband")


class Recorder:
    """Copies below a folder, counting files; what cannot be read is passed over."""

    def __init__(self, root: Root, target: Path) -> None:
        self.root = root
        self.target = target
        self.files = 0

    def copy(self, name: str) -> None:
        """Copy one file's text, serial numbers replaced."""
        if self.files >= _MAX_FILES:
            return
        text = self.root.text(name)
        if text is not None:
            self.write(name, text[:_MAX_FILE])

    def write(self, name: str, text: str) -> None:
        """Write a text to ``name`` below the folder."""
        path = self.target.joinpath(*name.strip("/").split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scrub(text), encoding="utf-8", errors="replace")
        self.files += 1

    def folder(self, name: str) -> None:
        """Make an empty folder, for what tells by being there."""
        self.target.joinpath(*name.strip("/").split("/")).mkdir(parents=True, exist_ok=True)

    def link(self, name: str) -> None:
        """Keep a link as a link, its target as written."""
        goal = self.root.link(name)
        path = self.target.joinpath(*name.strip("/").split("/"))
        if goal is not None and not os.path.lexists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(goal)

    def tree(self, folder: str, patterns: tuple[str, ...], depth: int = 7) -> None:
        """Copy the files below ``folder`` whose names match; links to folders are not followed."""
        for name in self.root.names(folder):
            inside = f"{folder}/{name}"
            path = self.root.path(inside)
            if path.is_symlink() or self.files >= _MAX_FILES:
                continue
            if path.is_dir():
                if depth > 0:
                    self.tree(inside, patterns, depth - 1)
            elif any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                self.copy(inside)


def record_machine(root: Root, target: Path) -> int:
    """Write the machine on ``root`` to the folder ``target`` and return how many files that took.

    UsageError if the folder exists and is not empty, or cannot be written.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise UsageError(f"{target} is not empty", "name a new folder", code="NOT-EMPTY")
        recorder = Recorder(root, target)
        for name in _PROC:
            recorder.copy(f"/proc/{name}")
        words = root.text("/proc/cmdline")
        if words is not None:
            recorder.write("/proc/cmdline", " ".join(word for word in words.split() if _PARAMETERS.fullmatch(word)) + "\n")
        recorder.tree("/proc/driver/nvidia/gpus", ("information", "numa_status"))
        for name in ("mounts", "self/mountinfo"):
            table = root.text(f"/proc/{name}")
            if table is not None:
                recorder.write(f"/proc/{name}", _mounts(table))
        for name in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/etc/nv_tegra_release"):
            recorder.copy(name)
        for name in _MARKERS:
            if root.exists(name):
                recorder.folder(name)
        if root.is_live and root.text("/proc/sys/kernel/arch") is None and hasattr(os, "uname"):
            recorder.write("/proc/sys/kernel/arch", os.uname().machine + "\n")
        for folder, patterns in _SYS:
            recorder.tree(f"/sys/{folder}", patterns)
        _cgroups(recorder)
        _devices(recorder)
        _nodes(recorder)
        _tools(recorder)
    except OSError as error:
        raise UsageError(f"cannot write to {target}: {error.strerror or error}", code="CANNOT-WRITE") from error
    return recorder.files


def _mounts(text: str) -> str:
    """Return the lines of a mount table that a probe reads, without the paths of overlays: the rest is the user's own business."""
    kept = [line for line in text.splitlines() if re.search(r"cgroup|cpuset|lxcfs| /dev/shm |^\d+ \d+ \S+ \S+ / ", line)]
    return "".join(re.sub(r"(lowerdir|upperdir|workdir)=[^, ]*", r"\1=", line) + "\n" for line in kept)


def _cgroups(recorder: Recorder) -> None:
    """Copy the limits of this process's groups, at every level."""
    from advisor.probe.host._cgroup import group_folders

    wanted = (
        "cgroup.controllers", "cpu.max", "cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus", "cpus", "memory.max",
        "memory.high",
        "memory.swap.max", "memory.current", "memory.stat", "memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us",
        "cpu.cfs_period_us", "pids.max",
    )  # fmt: skip
    for folder in group_folders(recorder.root):
        for name in wanted:
            recorder.copy(f"{folder}/{name}")


def _devices(recorder: Recorder) -> None:
    """Copy the PCI functions worth keeping, by the bus and by IOMMU group, and what stands behind the device classes."""
    root = recorder.root
    folders = [f"/sys/bus/pci/devices/{name}" for name in root.names("/sys/bus/pci/devices")]
    for group in root.names("/sys/kernel/iommu_groups"):
        inside = f"/sys/kernel/iommu_groups/{group}/devices"
        folders += [f"{inside}/{name}" for name in root.names(inside)]
    folders = [name for name in folders if _worth_keeping(root, name)]
    for base in ("/sys/class/accel", "/sys/class/drm", "/sys/class/infiniband", "/sys/class/habanalabs"):
        folders += [f"{base}/{name}/device" for name in root.names(base) if "-" not in name]
    for folder in folders:
        for name in root.names(folder):
            if any(fnmatch.fnmatch(name, pattern) for pattern in _DEVICE_FILES):
                recorder.copy(f"{folder}/{name}")
            elif name in _LINKS:
                recorder.link(f"{folder}/{name}")
        for name in root.names(f"{folder}/drm"):
            recorder.folder(f"{folder}/drm/{name}")
    for name in root.names("/sys/bus/usb/devices"):
        for field in ("idVendor", "idProduct"):
            recorder.copy(f"/sys/bus/usb/devices/{name}/{field}")
    for name in root.names("/sys/class/devfreq"):
        recorder.folder(f"/sys/class/devfreq/{name}")
    for name in root.names("/proc/device-tree"):
        if "npu@" in name:
            recorder.folder(f"/proc/device-tree/{name}")


def _worth_keeping(root: Root, folder: str) -> bool:
    """Tell whether a PCI function is a device of a class that matters, or an accelerator that gives itself no such class."""
    event = root.text(f"{folder}/uevent") or ""
    match = re.search(r"^PCI_CLASS=([0-9A-Fa-f]+)$", event, re.MULTILINE)
    found = (root.line(f"{folder}/class") or (f"0x{match[1]:0>6}" if match else "")).lower()
    ids = re.search(r"^PCI_ID=(\S+)$", event, re.MULTILINE)
    vendor, device = root.integer(f"{folder}/vendor", 16), root.integer(f"{folder}/device", 16)
    known = identify(vendor, device) if vendor is not None else identify_text(ids[1].lower() if ids else None)
    return found.startswith(_PCI_CLASSES) or known is not None


def _nodes(recorder: Recorder) -> None:
    """Write an empty file for every node of an accelerator."""
    root = recorder.root
    names = [name for name in root.names("/dev") if any(fnmatch.fnmatch(name, pattern) for pattern in _NODES) and name not in _NODE_FOLDERS]
    names += [f"{folder}/{name}" for folder in _NODE_FOLDERS for name in root.names(f"/dev/{folder}")]
    for name in names:
        if not root.path(f"/dev/{name}").is_dir():
            recorder.write(f"/dev/{name}", "")


def _tools(recorder: Recorder) -> None:
    """Write what the vendors' tools print, where they are installed; each has a deadline."""
    if not recorder.root.is_live:
        return
    from advisor.probe.accelerators._tools import run_tool

    commands = {
        "nvidia-smi-q-x.xml": ("nvidia-smi", "-q", "-x"),
        "nvidia-smi-L.txt": ("nvidia-smi", "-L"),
        "nvidia-smi-topo-m.txt": ("nvidia-smi", "topo", "-m"),
        "rocm-smi.json": ("rocm-smi", "--showallinfo", "--json"),
        "amd-smi.json": ("amd-smi", "static", "--json"),
        "npu-smi-info.txt": ("npu-smi", "info"),
        "hl-smi.csv": ("hl-smi", "-Q", "index,module_id,bus_id,name,memory.total", "-f", "csv"),
        "neuron-ls.txt": ("neuron-ls",),
        "xrt-smi.txt": ("xrt-smi", "examine"),
        "lspci-nn.txt": ("lspci", "-nn"),
    }
    for name, argv in commands.items():
        answer = run_tool(argv, recorder.root.environ, deadline_s=20)
        if answer.status != "absent" and answer.text.strip():
            recorder.write(f"/tools/{name}", answer.text)
    if sys.platform == "darwin":
        from advisor.probe.host._macos import sysctl_text

        recorder.write("/tools/sysctl-a.txt", sysctl_text(recorder.root))
