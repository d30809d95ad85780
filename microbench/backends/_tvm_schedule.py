"""Schedules for a CPU, one rule for each shape of loop nest: TVM's own default leaves every loop serial and scalar.

Contractions (matrix products, convolutions) are tiled in registers: a few rows times some vectors of accumulators, the reduction inside,
the tiles shared among threads. Nothing is tuned: what a search over schedules would find is not measured here.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax.backend.cpu_generic import pipeline as cpu_generic
from tvm.s_tir import dlight

#: By the instructions of the CPU: 32-bit lanes of a vector and vectors that may hold accumulators, leaving room for operands.
WIDTHS = (("avx512f", 16, 24), ("avx2", 8, 12))
OTHER = (4, 16)


def native_target(threads: int) -> Any:
    """Return the target that is this machine."""
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})


def compiled(module: Any, target: Any) -> Any:
    """Return the executable of a relax module: legalised, fused, scheduled, lowered."""
    passes = [
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.FoldConstant(),
        *cpu_generic.library_dispatch_passes(target),
        *cpu_generic.legalize_passes(target),
        dlight.ApplyDefaultSchedule(CpuRule(target)),
        *cpu_generic.dataflow_lower_passes(target),
        *cpu_generic.finalize_passes(target),
    ]
    with target:
        return tvm.compile(module, target=target, relax_pipeline=tvm.transform.Sequential(passes))


class CpuRule(dlight.ScheduleRule):  # type: ignore[misc]
    """The schedule of one fused function; a function that resists keeps TVM's default."""

    def __init__(self, target: Any) -> None:
        features = tvm.target.codegen.llvm_cpu_has_features
        with target:
            self.lanes, self.registers = next(((lanes, regs) for name, lanes, regs in WIDTHS if features(name)), OTHER)

    def apply(self, func: Any, target: Any, tunable: bool) -> Any:
        """Return the schedule, or None."""
        schedule = s_tir.Schedule(func)
        try:
            blocks = dlight.normalize_prim_func(schedule)
            if blocks is None:
                return None
            # A padding stays in front of its convolution: inlined, it would be a test in the innermost loop.
            contracts = any(block.is_reduction() for block in blocks)
            inline = dlight.try_inline_contiguous_spatial if contracts else dlight.try_inline
            for block in inline(schedule, blocks):
                self._block(schedule, block)
        except s_tir.ScheduleError:
            return None
        return schedule

    def _block(self, schedule: Any, block: Any) -> None:
        kinds, loops = block.dom_kind(), schedule.get_loops(block.block_rv)
        extents = [int(item.dom) for item in block.iters]
        spatial = [i for i, kind in enumerate(kinds) if kind == "S"]
        reduced = [i for i, kind in enumerate(kinds) if kind == "R"]
        if len(loops) != len(kinds) or not loops or len(spatial) + len(reduced) != len(kinds):
            return
        if not reduced:
            self._elementwise(schedule, loops, math.prod(extents))
        elif spatial and (panel := _panel(schedule.get(block.block_rv), spatial[-1])) is not None:
            # Rows share what the columns read: of a product those of the first operand, of a convolution the output channels. Loops of
            # one turn are gone: a vector times a matrix has columns alone.
            row = next((i for i in reversed(spatial) if i not in panel), None)
            self._contraction(schedule, block.block_rv, loops, extents, spatial, reduced, row)
        elif spatial:
            schedule.parallel(schedule.fuse(*(loops[i] for i in spatial)))

    def _elementwise(self, schedule: Any, loops: Any, count: int) -> None:
        width = _divisor(count, self.lanes)
        outer, inner = schedule.split(schedule.fuse(*loops), [None, width])
        schedule.vectorize(inner)
        schedule.parallel(outer)

    def _contraction(self, schedule: Any, block: Any, loops: Any, extents: Any, spatial: Any, reduced: Any, row: int | None) -> None:
        column = spatial[-1]
        width = _width(extents[column], (2 if row is not None else 8) * self.lanes)
        rows = _divisor(1 if row is None else extents[row], max(1, self.registers // math.ceil(width / self.lanes)))
        row_outer, row_inner = schedule.split(schedule.add_unit_loop(loops[column]) if row is None else loops[row], [None, rows])
        column_outer, column_inner = schedule.split(loops[column], [None, width])
        others = [loops[i] for i in spatial if i not in (row, column)]
        # Columns outside rows: a panel of the second operand stays in cache while the rows pass by.
        schedule.reorder(*others, column_outer, row_outer, *(loops[i] for i in reduced), row_inner, column_inner)
        tiles = schedule.fuse(*others, column_outer, row_outer)
        kept = schedule.cache_write(block, 0, "local")
        schedule.reverse_compute_at(kept, tiles)
        copied = schedule.get_loops(kept)
        schedule.vectorize(copied[-1])
        schedule.vectorize(column_inner)
        schedule.unroll(row_inner)
        schedule.parallel(tiles)
        schedule.decompose_reduction(block, loops[reduced[0]])


def _panel(block: Any, column: int) -> set[int] | None:
    """Return the iteration variables of what the block reads along ``column`` (its last index); None if it reads nothing so."""
    names = [item.var for item in block.iter_vars]
    for read in block.reads:
        used = [_variables(part.min, names) for part in read.region]
        if used and column in used[-1]:
            return set().union(*used)
    return None


def _variables(expression: Any, names: list[Any]) -> set[int]:
    found: set[int] = set()
    visit = lambda node: found.update(i for i, name in enumerate(names) if node.same_as(name))  # noqa: E731
    tvm_ffi.structural_walk(expression, (tirx.Var, visit), order="post")
    return found


def _width(extent: int, most: int) -> int:
    """Return how many columns to take at once: a power of two where one of at least four divides them, since others are split up."""
    power = min(extent & -extent, 1 << (most.bit_length() - 1))
    return power if power >= 4 else _divisor(extent, most)


def _divisor(extent: int, most: int) -> int:
    """Return the largest divisor of ``extent`` that is not over ``most``."""
    return next(size for size in range(min(extent, most), 0, -1) if extent % size == 0)


__all__ = ["CpuRule", "compiled", "native_target"]
