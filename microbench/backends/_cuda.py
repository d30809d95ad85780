"""What the backends that need an NVIDIA device have in common."""

from __future__ import annotations

import sys
from pathlib import Path

#: Where the driver shows its devices on Linux: of its own, and under Windows' Linux subsystem.
NODES = ("/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/gpus")


def no_device() -> str | None:
    """Return why there is no CUDA device here; None where one may be, or where the system does not tell."""
    if not sys.platform.startswith("linux") or any(Path(node).exists() for node in NODES):
        return None
    return "it needs a CUDA device, and the NVIDIA driver shows none on this machine"
