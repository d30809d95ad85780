"""Recorded machines as folders that ``advisor probe --root`` reads: the project's own, and records of other makers' tools."""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

OWN = Path(__file__).resolve().parents[2] / "tests" / "data" / "machines"

#: The name under which a tool's output was kept, and where the probe looks for it.
TOOLS = {
    "nvidia-smi-q-x.xml": "nvidia-smi-q-x.xml",
    "nvidia-smi-q.txt": "nvidia-smi-q.txt",
    "nvidia-smi-a.txt": "nvidia-smi-q.txt",
    "nvidia-smi.txt": "nvidia-smi.txt",
    "nvidia-smi-L.txt": "nvidia-smi-L.txt",
    "topo-m.txt": "nvidia-smi-topo-m.txt",
    "nvidia-smi-topo-m.txt": "nvidia-smi-topo-m.txt",
    "rocm-smi.json": "rocm-smi.json",
    "amd-smi.json": "amd-smi.json",
    "npu-smi-info.txt": "npu-smi-info.txt",
    "neuron-ls.txt": "neuron-ls.txt",
    "lspci-nn.txt": "lspci-nn.txt",
    "lspci-vvv.txt": "lspci-nn.txt",
    "xrt-smi.txt": "xrt-smi.txt",
    "xrt-smi-examine.txt": "xrt-smi.txt",
    "xbutil-examine.txt": "xrt-smi.txt",
    "hl-smi.csv": "hl-smi.csv",
    "sysctl-a.txt": "sysctl-a.txt",
}

#: A group's files alone say nothing of the machine: it is given 16 CPUs and this much memory.
GROUP_CPUS = 16
GROUP_MEMORY_KB = 65_900_000


@dataclass(frozen=True, slots=True)
class Machine:
    """A recorded machine: its kind, the facts it claims, and how to write it below an empty folder."""

    kind: str
    name: str
    expected: dict[str, Any]
    write: Callable[[Path], None]

    @contextmanager
    def laid_out(self) -> Iterator[Path]:
        """Give a folder that holds the machine as seen from ``/``; it is removed afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            self.write(Path(folder))
            yield Path(folder)


def own_machines(folder: Path) -> Iterator[Machine]:
    """Yield the machines of one YAML file each: ``files`` (path to text), and the facts ``devices`` and ``host``."""
    for path in sorted(folder.glob("*.yaml")):
        record = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield Machine(record["kind"], path.stem, record, _writer(record["files"]))


def _writer(files: dict[str, str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            path = folder / name.strip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            elif text.startswith("-> "):
                path.symlink_to(text[3:].strip())
            else:
                path.write_text(text, encoding="utf-8")

    return write


def recorded_machines(folder: Path) -> Iterator[Machine]:
    """Yield the machines below ``folder``, one for each ``<kind>/<name>/expected.yaml``."""
    for path in sorted(folder.glob("*/*/expected.yaml")):
        source = path.parent
        kind = source.parent.name

        def write(target: Path, source: Path = source, kind: str = kind) -> None:
            lay_out(source, kind, target)

        yield Machine(kind, source.name, yaml.safe_load(path.read_text(encoding="utf-8")) or {}, write)


def lay_out(source: Path, kind: str, target: Path) -> None:
    """Copy a record's parts to where the probe looks for them: trees as they are, tools' texts to ``tools/``."""
    topology = target / "sys/class/kfd/kfd"
    for archive in source.glob("*.tar.xz"):
        place = topology if kind == "kfd" else target
        place.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as opened:
            opened.extractall(place, filter="tar")
    for name, place in (("proc", target / "proc"), ("sys", target / "sys"), ("root", target), ("topology", topology / "topology")):
        if (source / name).is_dir():
            shutil.copytree(source / name, place, symlinks=True, dirs_exist_ok=True)
    for name, text in (("cpuinfo", "proc/cpuinfo"), ("osrelease", "proc/sys/kernel/osrelease")):
        if (source / name).is_file():
            _copy(source / name, target / text)
    for name, tool in TOOLS.items():
        if (source / name).is_file():
            _copy(source / name, target / "tools" / tool)
    if kind == "cgroup":
        _group(source, target)
    _mend_addresses(target)
    for listing in sorted(source.glob("dev/*.ls")):
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line[:1] in ("c", "b"):
                node = target / "dev" / listing.stem / line.split()[-1]
                node.parent.mkdir(parents=True, exist_ok=True)
                node.touch()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _group(source: Path, target: Path) -> None:
    """Make a machine around one control group: the group is mounted whole, and the process is in its root."""
    base = target / "sys/fs/cgroup"
    shutil.copytree(source, base, dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected.yaml", "SOURCE.txt"))
    controllers = sorted(item.name for item in source.iterdir() if item.is_dir()) or ["cpu", "memory"]
    v2 = any((source / name).exists() for name in ("cgroup.controllers", "cpu.max", "memory.max"))
    own = target / "proc/self"
    own.mkdir(parents=True)
    point = "/sys/fs/cgroup"
    (own / "cgroup").write_text("0::/\n" if v2 else "".join(f"{n}:{name}:/\n" for n, name in enumerate(controllers, 2)))
    mounts = [f"40 30 0:40 / {point} rw - cgroup2 cgroup rw"]
    if not v2:
        mounts = [f"{40 + n} 30 0:{40 + n} / {point}/{name} rw - cgroup cgroup rw,{name}" for n, name in enumerate(controllers)]
    (own / "mountinfo").write_text("\n".join(mounts) + "\n")
    (target / "proc/meminfo").write_text(f"MemTotal: {GROUP_MEMORY_KB} kB\nMemAvailable: {GROUP_MEMORY_KB - 1024} kB\n")
    (target / "proc/cpuinfo").write_text("".join(f"processor : {n}\nvendor_id : GenuineIntel\nflags : fpu\n\n" for n in range(GROUP_CPUS)))


def _mend_addresses(target: Path) -> None:
    """Give folders their PCI addresses back where a record could not keep colons in names."""
    for path in sorted(target.rglob("????_??_??.?"), reverse=True):
        match = re.fullmatch(r"([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2}\.[0-7])", path.name)
        if match:
            path.rename(path.with_name(":".join(match.groups())))
