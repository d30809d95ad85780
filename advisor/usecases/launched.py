"""Trials that a script runs: plans over several processes (torchrun with gloo, JAX over devices of the host), and generated tokens.

The script is the one that ``advisor export`` writes, in a folder that is gone afterwards: what is measured is what a user would start.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.export import Answer, exporter
from advisor.plan.records import Plan
from advisor.usecases.question import Question
from microbench.child import run_child
from microbench.protocol import Measurement

if TYPE_CHECKING:
    from advisor.bench.children import Line

#: Which format holds the script of a framework.
FORMATS: Mapping[str, str] = {"torch": "torchrun", "jax": "jax"}
#: Steps that are run; the first two warm up (allocation, compilation, the first collectives).
STEPS, WARM = 8, 2
#: Seconds that starting processes and importing the framework in each may take.
START_S = 60.0
_STEP = re.compile(r"^step \d+ loss (\S+) ([\d.]+) s ", re.MULTILINE)
_BATCH = re.compile(r"^batch of \d+: median ([\d.]+) ms", re.MULTILINE)


def needs_script(question: Question, plan: Plan) -> bool:
    """Tell whether a trial of the plan is started as a script: several devices, or tokens to generate."""
    return plan.devices > 1 or (not question.workload.is_training and (question.workload.output_len or 0) > 0)


def obstacle(question: Question, plan: Plan) -> str | None:
    """Return why no script can run the plan here, or None."""
    name = FORMATS.get(plan.framework)
    if name is None:
        return f"no script runs {plan.framework} over several processes, or generates with it, here"
    return exporter(name).obstacle(_answer(question, plan, ""))


def _answer(question: Question, plan: Plan, plan_id: str) -> Answer:
    t = question.model.transformer
    return Answer(
        plan_id=plan_id,
        plan=plan,
        task=question.workload.task,
        model=question.model_document(),
        hardware=question.hardware.document(),
        workload={name: getattr(question.workload, name) for name in ("seq_len", "input_len", "output_len")},
        estimate={},
        transformer=asdict(t) if t is not None else {},
        versions={},
        target=question.platform.profile.target,
    )


def run_script(question: Question, plan: Plan, *, budget_s: float) -> Line:
    """Run ``plan`` as its script in ``budget_s`` besides its start and return a measurement, as a measuring child would."""
    answer = _answer(question, plan, "trial")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="advisor-trial-") as folder:
        for name, text in exporter(FORMATS[plan.framework]).write(answer).items():
            (Path(folder) / name).write_text(text)
        training = question.workload.is_training
        words = ["--steps", str(STEPS)] if training else ["--batches", str(STEPS - WARM)]
        program = "train.py" if training else "infer.py"
        launcher = ["bash", "run.sh"] if (Path(folder) / "run.sh").exists() else [sys.executable, program]
        child = run_child([*launcher, *words], timeout_s=START_S + budget_s, env=_variables(plan), cwd=folder)
    if child.status != "ok":
        return _line(plan, start, "timeout" if child.status == "timeout" else "failed", child.reason)
    return read_output(question, plan, child.stdout, start)


def _variables(plan: Plan) -> dict[str, str]:
    """Return the environment of a script: this interpreter's torchrun first, as many devices of the host as the plan has."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={plan.devices}".strip()
    threads = str(plan.threads)
    return {**os.environ, "PATH": path, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": threads, "CUDA_VISIBLE_DEVICES": ""}


def read_output(question: Question, plan: Plan, text: str, start: float) -> Line:
    """Return what a script printed as a measurement; a loss that is no loss is a wrong result."""
    if not question.workload.is_training:
        found = _BATCH.search(text)
        if found is None:
            return _line(plan, start, "failed", f"the script printed no time: {text[-200:]!r}")
        return _line(plan, start, "ok", None, [float(found[1]) * 1e-3])
    steps = [(float(loss), float(seconds)) for loss, seconds in _STEP.findall(text)]
    if len(steps) <= WARM:
        return _line(plan, start, "failed", f"the script printed {len(steps)} steps: {text[-200:]!r}")
    t = question.model.transformer
    # Untrained weights guess: the first loss is about the logarithm of the vocabulary, whatever splits the work.
    expected = math.log(t.vocab) if t is not None else None
    losses = [loss for loss, _ in steps]
    if not all(math.isfinite(loss) for loss in losses) or (expected is not None and not 0.5 < losses[0] / expected < 2.0):
        return _line(plan, start, "wrong_result", f"the first loss is {losses[0]:.4g}, untrained weights give about {expected}")
    return _line(plan, start, "ok", None, [seconds for _, seconds in steps[WARM:]])


def _line(plan: Plan, start: float, status: Any, reason: str | None, samples: list[float] | None = None) -> Line:
    ordered = sorted(samples or [])
    value = ordered[len(ordered) // 2] if ordered else None
    return Measurement(
        benchmark="model",
        backend=plan.framework,
        backend_version=None,
        device="cpu",
        dtype=plan.precision,
        params={"devices": plan.devices, "threads": plan.threads},
        metric="seconds",
        unit="s",
        value=value,
        low=value,
        high=value,
        run_low=ordered[0] if ordered else None,
        run_high=ordered[-1] if ordered else None,
        samples=len(ordered),
        seconds=time.monotonic() - start,
        status=status,
        reason=reason,
        sample_seconds=tuple(samples or ()),
        conditions={"launched": FORMATS[plan.framework]},
    ).to_dict()
