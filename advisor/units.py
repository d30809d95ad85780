"""Units: constants, the field's dtype names, and numbers written as people read them."""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
KB: Final = 10**3
MB: Final = 10**6
GB: Final = 10**9
TERA: Final = 10**12

#: Bits of one stored element. tf32 is stored as fp32.
DTYPE_BITS: Final[dict[str, int]] = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp8_rows": 8,
    "fp8_block": 8,
    "int8": 8,
    "fp4": 4,
    "int4": 4,
    "nf4": 4,
}


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of one stored element of ``dtype`` (0.5 for four-bit types); KeyError if unknown."""
    return DTYPE_BITS[dtype] / 8


def _scaled(value: float, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{value / factor:.{digits}f} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.{digits}f} {unit}"


def format_bytes(value: float, digits: int = 1) -> str:
    """Write memory in binary units: ``79.2 GiB``."""
    return _scaled(value, ((1 << 40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B")), digits)


def format_seconds(value: float) -> str:
    """Write a duration with about three significant digits: ``8.42 s``, ``412 ms``, ``3.1 min``."""
    # A limit is passed by what would be written as it: 999.6 ms is "1 s".
    for limit, factor, unit in ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if abs(value) < 0.9995 * limit:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 86400:.3g} days"


def format_energy(joules: float) -> str:
    """Write an energy in decimal units: ``148.8 kJ``."""
    return _scaled(joules, ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")), 1)


def format_rate(value: float, unit: str) -> str:
    """Write a rate in decimal units: ``312 TFLOP/s``, ``1.9 TB/s``, ``23,400 tokens/s``.

    ``unit`` is ``flops_per_s``, ``bytes_per_s`` or what is counted (``tokens/s``).
    """
    if unit == "flops_per_s":
        return _scaled(value, ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")), 1)
    if unit == "bytes_per_s":
        return _scaled(value, ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")), 1)
    if abs(value) >= 100:
        return f"{value:,.0f} {unit}"
    return f"{value:.3g} {unit}"


def format_count(value: float) -> str:
    """Write a count as the field does: ``12.9 B`` parameters, ``110 M``."""
    return _scaled(value, ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"), (1, "")), 1).strip()


def format_quantity(value: float | None, unit: str) -> str:
    """Return a number as people read it: ``1.27x`` for a ``ratio``, bare for a ``fraction``, else with its unit; ``-`` if None."""
    if value is None:
        return "-"
    text = f"{value:.2f}" if 0.1 <= abs(value) < 100 else f"{value:.3g}" if abs(value) < 1e5 else f"{value:.2e}"
    return f"{text}x" if unit == "ratio" else text if unit == "fraction" else f"{text} {unit}"
