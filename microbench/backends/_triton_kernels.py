"""Triton kernels: a tiled matrix product with accumulators in float32, and STREAM's operations."""

from __future__ import annotations

import triton
import triton.language as tl

#: Tiles tried by the tuner for each shape: rows, columns, depth, groups of rows that share columns in the cache, warps, stages.
_TILES = ((128, 256, 64, 8, 8, 3), (128, 128, 64, 8, 8, 4), (64, 128, 64, 8, 4, 4), (64, 64, 64, 8, 4, 4), (16, 128, 128, 4, 4, 4))


def _tile(m: int, n: int, k: int, group: int, warps: int, stages: int) -> triton.Config:
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": group}, num_warps=warps, num_stages=stages)


@triton.autotune([_tile(*row) for row in _TILES], key=["m", "n", "k"])
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, m, n, k,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """C = A B for contiguous row-major operands; a program makes one tile, tiles in groups of rows."""
    program = tl.program_id(0)
    across = GROUP * tl.cdiv(n, BLOCK_N)
    first = program // across * GROUP
    size = min(tl.cdiv(m, BLOCK_M) - first, GROUP)
    row, column = first + program % across % size, program % across // size
    rows, columns, depth = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + depth
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], (rows[:, None] < m) & (inner[None, :] < k), 0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], (inner[:, None] < k) & (columns[None, :] < n), 0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    tl.store(
        c_ptr + rows[:, None] * n + columns[None, :],
        total.to(c_ptr.dtype.element_ty),
        (rows[:, None] < m) & (columns[None, :] < n),
    )


@triton.jit
def stream(a_ptr, b_ptr, c_ptr, s, count, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    """a = b, s b, b + c or b + s c, element by element (OPERATION 0 to 3)."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(b_ptr + index, inside)
    if OPERATION == 1:
        value = value * s
    elif OPERATION == 2:
        value = value + tl.load(c_ptr + index, inside)
    elif OPERATION == 3:
        value = value + s * tl.load(c_ptr + index, inside)
    tl.store(a_ptr + index, value, inside)
