"""Runs in a child: asks the CUDA driver library itself, with ctypes, whether it can be used and what it sees.

NVML answers on machines where ``cuInit`` fails (a vGPU profile without unified memory, a broken container), and knows neither
the number of multiprocessors nor the memory of an integrated GPU. No context is made: that would take memory of the GPU.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

# Numbers of CUdevice_attribute, from the CUDA driver API reference.
MULTIPROCESSORS, INTEGRATED, MAJOR, MINOR = 16, 18, 75, 76
DOMAIN, BUS, DEVICE = 50, 33, 34


def main() -> int:
    """Print one JSON object: ``status`` is the CUDA error number of the first call that failed, or 0."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        print(json.dumps({"status": None, "text": str(error)}))
        return 0
    version = ctypes.c_int(0)
    if hasattr(cuda, "cuDriverGetVersion"):
        cuda.cuDriverGetVersion(ctypes.byref(version))
    status = int(cuda.cuInit(0))
    answer: dict[str, Any] = {"status": status, "text": _text(cuda, status), "driver_version": version.value, "devices": []}
    if status == 0:
        count = ctypes.c_int(0)
        cuda.cuDeviceGetCount(ctypes.byref(count))
        answer["devices"] = [_device(cuda, index) for index in range(count.value)]
    print(json.dumps(answer))
    return 0


def _text(cuda: Any, status: int) -> str | None:
    text = ctypes.c_char_p()
    if status and hasattr(cuda, "cuGetErrorString") and cuda.cuGetErrorString(status, ctypes.byref(text)) == 0 and text.value:
        return text.value.decode("utf-8", "replace")
    return None


def _device(cuda: Any, index: int) -> dict[str, Any]:
    handle = ctypes.c_int(0)
    if cuda.cuDeviceGet(ctypes.byref(handle), index) != 0:
        return {"index": index}
    total = ctypes.c_size_t(0)
    memory = total.value if cuda.cuDeviceTotalMem_v2(ctypes.byref(total), handle) == 0 else None
    uuid = (ctypes.c_ubyte * 16)()
    name = "cuDeviceGetUuid_v2" if hasattr(cuda, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
    named = hasattr(cuda, name) and getattr(cuda, name)(ctypes.byref(uuid), handle) == 0

    def attribute(number: int) -> int | None:
        found = ctypes.c_int(0)
        return found.value if cuda.cuDeviceGetAttribute(ctypes.byref(found), number, handle) == 0 else None

    return {
        "index": index,
        "uuid": _uuid(bytes(uuid)) if named else None,
        "bus": [attribute(DOMAIN), attribute(BUS), attribute(DEVICE)],
        "memory": total.value if memory is not None else None,
        "multiprocessors": attribute(MULTIPROCESSORS),
        "integrated": attribute(INTEGRATED),
        "compute_capability": [attribute(MAJOR), attribute(MINOR)],
    }


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


if __name__ == "__main__":
    sys.exit(main())
