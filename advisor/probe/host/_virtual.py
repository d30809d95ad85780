"""Whether this is a virtual machine or a container, and of which kind."""

from __future__ import annotations

import re

from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._platform import device_tree, dmi
from advisor.probe.root import Root

#: What DMI says (maker, product, BIOS maker, lower case) to the hypervisor.
_DMI_HYPERVISORS: tuple[tuple[str, str], ...] = (
    ("firecracker", "firecracker"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("parallels", "parallels"),
    ("apple virtualization", "apple"),
    ("microsoft corporation virtual machine", "hyperv"),
    ("bhyve", "bhyve"),
    ("xen", "xen"),
    ("google compute engine", "kvm"),
    ("openstack", "kvm"),
    ("alibaba cloud ecs", "kvm"),
    ("digitalocean", "kvm"),
    ("kubevirt", "kvm"),
    ("nutanix", "kvm"),
    ("rhev", "kvm"),
    ("ovirt", "kvm"),
    ("kvm", "kvm"),
    ("bochs", "qemu"),
    ("qemu", "qemu"),
    ("hetzner vserver", "kvm"),
)

#: Parts of a control group's path to the container engine.
_CGROUP_ENGINES: tuple[tuple[str, str], ...] = (
    (r"kubepods", "kubernetes"),
    (r"libpod", "podman"),
    (r"docker", "docker"),
    (r"/lxc[./]|lxc\.payload", "lxc"),
    (r"machine\.slice/machine-.*\.scope|systemd-nspawn", "systemd-nspawn"),
    (r"cri-containerd|containerd|/ecs/|garden|crio", "container"),
)


def virtualization(root: Root, info: CpuInfo, arch: str | None) -> str | None:
    """Return the hypervisor, ``none`` on bare metal, or None where nothing tells.

    A virtual machine whose hypervisor cannot be named is ``vm``.
    """
    release = f"{root.line('/proc/sys/kernel/osrelease') or ''} {root.text('/proc/version') or ''}".lower()
    if "microsoft" in release:
        return "wsl"
    if "gvisor" in release or is_gvisor(root):
        return "gvisor"
    named = root.line("/sys/hypervisor/type")
    if named:
        return named.lower()
    text = " ".join(dmi(root, field) or "" for field in ("sys_vendor", "product_name", "bios_vendor", "board_vendor")).lower()
    for key, name in _DMI_HYPERVISORS:
        if key in text:
            return name
    flags = (info.first("flags") or "").split()
    if "amazon ec2" in text:
        return "none" if ".metal" in text or (flags and "hypervisor" not in flags) else "kvm"
    if arch == "s390x":
        return _z_hypervisor(root)
    if root.exists("/proc/device-tree/hypervisor/compatible"):
        compatible = root.line("/proc/device-tree/hypervisor/compatible") or ""
        return "kvm" if "kvm" in compatible else "xen" if "xen" in compatible else "vm"
    if (arch or "").startswith("ppc"):
        machine = (info.common.get("machine") or info.common.get("model") or "").lower()
        if "qemu" in machine:
            return "kvm"
        if (info.common.get("platform") or "") == "pSeries" or root.exists("/proc/ppc64/lparcfg"):
            return "phyp"
    if info.first("cpu implementer") == "0x00" and info.first("cpu part") == "0x051":
        return "qemu"  # the processor model "max" of QEMU, which no hardware has
    model = " ".join(device_tree(root, "compatible")).lower()
    if "dummy-virt" in model or "qemu" in model:
        return "qemu"
    clock = root.line("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    for word, name in (("kvm-clock", "kvm"), ("hyperv", "hyperv"), ("xen", "xen")):
        if word in clock:
            return name
    if "hypervisor" in flags:
        return "firecracker" if "-fc" in release.split(" ")[0] else "vm"
    if flags:
        return "none"
    return "none" if text.strip() or model else None


def is_gvisor(root: Root) -> bool:
    """Tell whether the kernel is gVisor's, which always says it is 4.4.0 built on one and the same day."""
    return "4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016" in (root.text("/proc/version") or "")


def _z_hypervisor(root: Root) -> str:
    """An IBM Z processor is always shared: by PR/SM alone, or below it by z/VM or KVM, as /proc/sysinfo says."""
    text = root.text("/proc/sysinfo") or ""
    match = re.search(r"^VM\d+ Control Program:\s*(\S+)", text, re.MULTILINE)
    if match:
        return "kvm" if "KVM" in match[1].upper() else "zvm"
    return "pr/sm"


def container(root: Root) -> str | None:
    """Return the container engine, ``none`` outside a container, or None where nothing tells (a recorded machine without /proc)."""
    environ = root.environ
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    groups = root.text("/proc/self/cgroup")
    mounts = root.text("/proc/self/mountinfo") or root.text("/proc/mounts") or ""
    joined = f"{groups or ''}\n" + "\n".join(line for line in mounts.splitlines() if "cgroup" in line or "/etc/hostname" in line)
    if "kubepods" in joined or root.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if root.exists("/run/.containerenv"):
        return "podman"
    if root.exists("/.dockerenv"):
        return "docker"
    stated = root.line("/run/systemd/container") or environ.get("container")
    if stated:
        return stated
    for pattern, engine in _CGROUP_ENGINES:
        if groups and re.search(pattern, groups):
            return engine
    if has_lxcfs(root):
        return "lxc"
    if re.search(r"^\d+ \d+ \S+ /\S* / .* - (?:overlay|fuse-overlayfs|aufs) ", mounts, re.MULTILINE):
        return "container"
    return "none" if groups is not None or mounts else None


def has_lxcfs(root: Root) -> bool:
    """Tell whether lxcfs overlays files of /proc. A host that merely runs it has it mounted below /var/lib."""
    mounts = root.text("/proc/self/mountinfo") or root.text("/proc/mounts") or ""
    return any("fuse.lxcfs" in line and " /proc/" in line for line in mounts.splitlines())
