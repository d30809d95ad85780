"""Windows Subsystem for Linux: the GPU is behind /dev/dxg, its library comes from Windows, and no /dev/nvidia node exists."""

from __future__ import annotations

from advisor.probe.root import Root

LIBRARIES = "/usr/lib/wsl/lib"
NODE = "/dev/dxg"


def is_wsl(root: Root) -> bool:
    """Tell whether the kernel is Microsoft's (``…-microsoft-standard-WSL2``, any case)."""
    return "microsoft" in (root.line("/proc/sys/kernel/osrelease") or root.line("/proc/version") or "").lower()


def wsl_environ(environ: dict[str, str]) -> dict[str, str]:
    """Return the environment in which the loader finds the library of Windows before one of a Linux driver package."""
    path = environ.get("LD_LIBRARY_PATH")
    return {**environ, "LD_LIBRARY_PATH": f"{LIBRARIES}:{path}" if path else LIBRARIES}
