"""Milliseconds of a residual block of ResNet-50's shape in TVM: with its default schedule, or with what its auto-tuner found.

The block is the second stage's (56 x 56, 64 channels in the middle, He et al. 2015, table 1). Tuning (MetaSchedule) tries schedules on this
CPU and keeps what it found in a folder, which ``claims prepare`` fills; the search takes minutes, so a run without it says that it lacks
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import Lacks, answer
from advisor.claims.children._timing import seconds

SIDE, WIDTH, WIDE = 56, 64, 256
#: Schedules tried for each distinct operator of the block.
TRIALS = 48


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the milliseconds of the block, ``tuned`` or not."""
    import tvm

    threads = int(arguments["threads"])
    target = tvm.target.Target({"kind": "llvm", "mcpu": _cpu(tvm), "num-cores": threads})
    module, weights = _block(int(arguments.get("weight_seed") or 1))
    folder = Path(arguments["cache"]) / f"trials-{TRIALS}-threads-{threads}"
    if arguments["tuned"]:
        if arguments.get("prepare") and not (folder / "done").is_file():
            _tune(module, target, folder)
        if not (folder / "done").is_file():
            raise Lacks("a tuned schedule (`advisor claims prepare tvm-energy-37` searches for one)")
    compiled = _compiled(tvm, module, target, folder if arguments["tuned"] else None)
    value = _milliseconds(tvm, compiled, weights, threads, int(arguments["seed"]), float(arguments.get("budget_s") or 3.0))
    return [{"label": "a residual block of ResNet-50", "value": value, "detail": {"tuned": bool(arguments["tuned"]), "trials": TRIALS}}]


def _cpu(tvm: Any) -> str:
    host = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
    return str(host()) if host is not None else "generic"


def _block(seed: int) -> tuple[Any, list[Any]]:
    """Return the block as a Relax module (images and weights in, images out) and its weights."""
    import numpy as np
    from tvm import relax

    shapes = [(WIDTH, WIDE, 1, 1), (WIDTH, WIDTH, 3, 3), (WIDE, WIDTH, 1, 1)]
    rng = np.random.default_rng(seed)
    weights = [(rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32") for shape in shapes]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, WIDE, SIDE, SIDE), "float32"))
    parameters = [relax.Var(f"w{i}", relax.TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("main", [x, *parameters]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(x, parameters[0])))
            y = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(y, parameters[1], padding=(1, 1))))
            y = builder.emit(relax.op.nn.conv2d(y, parameters[2]))
            result = builder.emit_output(relax.op.nn.relu(relax.op.add(x, y)))
        builder.emit_func_output(result)
    return builder.get(), weights


def _lowered(module: Any) -> Any:
    import tvm
    from tvm import relax

    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), relax.transform.FoldConstant(),
              relax.transform.FuseOps(), relax.transform.FuseTIR()]  # fmt: skip
    return tvm.transform.Sequential(passes)(module)


def _tune(module: Any, target: Any, folder: Path) -> None:
    from tvm.s_tir import meta_schedule

    folder.mkdir(parents=True, exist_ok=True)
    meta_schedule.relax_integration.tune_relax(
        mod=_lowered(module), params={}, target=target, work_dir=str(folder), max_trials_global=4 * TRIALS,
        max_trials_per_task=TRIALS, num_trials_per_iter=16, cost_model="random",
    )  # fmt: skip
    (folder / "done").touch()


def _compiled(tvm: Any, module: Any, target: Any, folder: Path | None) -> Any:
    from tvm import relax

    lowered = _lowered(module)
    with target:
        if folder is not None:
            lowered = relax.transform.MetaScheduleApplyDatabase(str(folder))(lowered)
        return tvm.compile(lowered, target=target)


def _milliseconds(tvm: Any, compiled: Any, weights: list[Any], threads: int, seed: int, budget_s: float) -> float:
    import numpy as np
    from tvm import relax

    machine = relax.VirtualMachine(compiled, tvm.cpu())
    images = np.random.default_rng(seed).standard_normal((1, WIDE, SIDE, SIDE), dtype=np.float32)
    arguments = [tvm.runtime.tensor(array) for array in (images, *weights)]
    got = machine["main"](*arguments).numpy()
    want = reference(images[0], weights)
    error = float(np.abs(got[0] - want).max() / np.abs(want).max())
    if error > 1e-3:
        raise RuntimeError(f"the block's output is off by {error:.2g}")
    return 1000 * seconds(lambda: machine["main"](*arguments), threads=threads, budget_s=budget_s)


def reference(x: Any, weights: list[Any]) -> Any:
    """Return the block's output (channels, height, width) in numpy."""
    import numpy as np

    y = np.maximum(np.einsum("oc,chw->ohw", weights[0][:, :, 0, 0], x), 0)
    padded = np.pad(y, ((0, 0), (1, 1), (1, 1)))
    y = sum(
        np.einsum("oc,chw->ohw", weights[1][:, :, i, j], padded[:, i : i + SIDE, j : j + SIDE], optimize=True)
        for i in range(3)
        for j in range(3)
    )
    return np.maximum(x + np.einsum("oc,chw->ohw", weights[2][:, :, 0, 0], np.maximum(y, 0)), 0)


if __name__ == "__main__":
    answer(measure)
