"""What several descriptors need when they answer in their child."""

from __future__ import annotations

import platform


def cpu_target() -> str:
    """Return the Device target of this machine's processors."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "i386", "i686"):
        return "cpu-x86"
    return "cpu-arm" if machine.startswith(("aarch64", "arm")) else "cpu-other"
