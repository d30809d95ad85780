"""Run a plan for real: one fresh process a round, through the ``model`` benchmark of the measuring child."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence

from advisor.bench.children import Line, run_round
from advisor.bench.combine import combine
from advisor.bench.environments import usable_python
from advisor.errors import EnvironmentLacks
from advisor.frameworks import FrameworkSpec, framework
from advisor.model.records import Model
from advisor.plan.records import Plan, Workload
from advisor.trial.network import case_params
from advisor.trial.records import Trial
from microbench.protocol import Case, Request


def run_trial(
    model: Model, workload: Workload, plan: Plan, plan_id: str, *, budget_s: float, device_id: str = "cpu0", rounds: int = 1
) -> Trial:
    """Run ``plan`` in ``rounds`` fresh processes of at most ``budget_s`` each and return what came out; a failure is a Trial too."""
    start = time.monotonic()
    lines = [run_once(model, workload, plan, budget_s=budget_s, seed=number) for number in range(rounds)]
    return trial_of(plan, plan_id, lines, device_id, time.monotonic() - start)


def run_once(model: Model, workload: Workload, plan: Plan, *, budget_s: float, seed: int = 0) -> Line:
    """Run ``plan`` in one fresh process and return the child's line."""
    spec = framework(plan.framework)
    if spec is None or spec.bench_backend is None:
        raise EnvironmentLacks("NO-TRIAL", f"{plan.framework} has no backend that could run a trial here")
    case = Case(benchmark="model", dtype=plan.precision, params=case_params(model, workload, plan))
    request = Request(
        backend=spec.bench_backend, device="cpu", threads=plan.threads, cases=(case,), budget_s=budget_s, seed=seed, quick=True
    )
    return run_round(request, python=_interpreter(spec))[0]


def _interpreter(spec: FrameworkSpec) -> str | None:
    """Return the managed environment's interpreter for a framework that this one has not; None for this one."""
    if importlib.util.find_spec(spec.module) is not None or spec.environment is None:
        return None
    return usable_python(spec.environment)


def trial_of(plan: Plan, plan_id: str, lines: Sequence[Line], device_id: str, spent_s: float) -> Trial:
    """Combine the rounds of one plan into a Trial, drift between processes included in its interval."""
    m = combine(lines, device_id)
    measured = m.status in ("ok", "contended")
    return Trial(
        plan=plan,
        plan_id=plan_id,
        status=m.status,
        reason=m.reason,
        seconds=m.value if measured else None,
        low=m.low if measured else None,
        high=m.high if measured else None,
        samples=m.samples,
        rounds=tuple(float(line["value"]) for line in lines if line.get("value") is not None),
        max_error=m.max_error,
        spent_s=spent_s,
        backend_version=m.backend_version,
        measurement_id=m.id,
        conditions=m.conditions,
    )
