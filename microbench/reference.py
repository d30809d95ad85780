"""Random inputs, float64 references and the tolerance of each dtype."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

#: Unit roundoff of a dtype: half the distance from 1 to the next number (IEEE 754; bfloat16 has 8 significant bits).
UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
FLOAT_DTYPES = tuple(UNIT_ROUNDOFF)


class WrongResult(Exception):
    """A kernel's output is not what float64 arithmetic gives; ``error`` is the largest error found, relative to the scale."""

    def __init__(self, message: str, error: float) -> None:
        super().__init__(message)
        self.error = error


def generator(seed: int, *key: Any) -> np.random.Generator:
    """Return a random generator for ``key``: the same for the same seed and key, in every process."""
    return np.random.default_rng([seed, zlib.crc32(repr(key).encode())])


def round_to(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return ``array`` with its values rounded to those ``dtype`` can hold, stored as float32 (float64 for fp64)."""
    if dtype == "fp64":
        return array.astype(np.float64)
    single = array.astype(np.float32, copy=False)
    if dtype == "fp16":
        return single.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = single.view(np.uint32)
        # Round to nearest even on the upper 16 bits, which are the bfloat16.
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return single


def uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return random inputs: uniform in [-1, 1) rounded to ``dtype``, or full-range int8 (-127 to 127)."""
    if dtype == "int8":
        return rng.integers(-127, 128, shape, dtype=np.int8)
    values = rng.random(shape, dtype=np.float64 if dtype == "fp64" else np.float32)
    values *= 2
    values -= 1
    return round_to(values, dtype)


def sum_tolerance(dtype: str, terms: int) -> float:
    """Return the error allowed in a sum of ``terms`` products, relative to the root mean square of the results.

    Rounding errors of a sum of n terms in fp32 grow like sqrt(n) u in the mean (Higham, Accuracy and Stability of Numerical
    Algorithms, section 2.8); the largest of many outputs lies some standard deviations out, so 16 of them are allowed. Narrow
    types are accumulated in fp32 and rounded once to the output type: 4 u more, the extremes being several times the mean.
    """
    if dtype == "int8":
        return 0.0
    u = UNIT_ROUNDOFF[dtype]
    accumulate = UNIT_ROUNDOFF["fp64"] if dtype == "fp64" else UNIT_ROUNDOFF["fp32"]
    if dtype == "tf32":
        accumulate = u
    return 16 * accumulate * max(1.0, terms**0.5) + (0.0 if dtype in ("fp64", "fp32") else 8 * u)


def largest_error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the largest absolute difference over the root mean square of ``want``; infinite where ``got`` is not finite."""
    if got.shape != want.shape:
        raise WrongResult(f"the result has shape {got.shape}, not {want.shape}", float("inf"))
    if not np.isfinite(got).all():
        return float("inf")
    scale = float(np.sqrt(np.mean(np.square(want, dtype=np.float64)))) or 1.0
    return float(np.max(np.abs(got.astype(np.float64) - want), initial=0.0)) / scale
