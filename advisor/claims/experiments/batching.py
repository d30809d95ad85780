"""Dynamic batching on latencies measured here: a server with a queue is simulated, single requests against whatever waits.

Parameters: ``backend``, ``execution``, ``network``, ``seq`` or ``resolution``, ``batches``, ``limit_factor`` (the latency limit as a
multiple of the latency at batch 1), ``most`` (the largest batch the policy forms; 1 is no batching). One round is one process that
measures all batches; the number of a round is the share of the device's best throughput that is served within the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.bench.children import run_round
from advisor.bench.combine import DRIFT
from advisor.claims.experiments._rounds import LEAST, enough
from advisor.claims.experiments.speed import ROUND_S, START_S, USABLE, case_of
from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.claims.simulate import best_utilisation
from microbench.protocol import Request

BATCHES = (1, 2, 4, 8)


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Measure the latencies and simulate both policies on those of each round."""
    batches = [int(size) for size in parameters.get("batches") or BATCHES]
    side = {name: parameters[name] for name in ("backend", "execution", "network", "seq", "resolution") if name in parameters}
    cases = tuple(case_of("model", {**side, "mode": "infer"}, {"batch": size}) for size in batches)
    factor, most = float(parameters.get("limit_factor") or 4.0), int(parameters.get("most") or max(batches))
    samples, single, evidence, last = [], [], [], {}
    reason = None
    outcome, number = Outcome(), 0
    while not enough(claim, outcome, number, context.rounds) and (not number or context.left_s > 4.0):
        budget = max(4.0, min(ROUND_S * len(batches), context.left_s))
        context.say(f"round {number + 1}: {side['backend']}")
        request = Request(
            backend=str(side["backend"]),
            device=context.device,
            threads=context.threads,
            cases=cases,
            budget_s=budget,
            seed=context.seed + number,
            quick=True,
        )
        lines = run_round(request)
        number += 1
        if any(line["status"] not in USABLE for line in lines):
            reason = next(str(line["reason"]) for line in lines if line["status"] not in USABLE)
            continue
        last = {size: float(line["value"]) for size, line in zip(batches, lines, strict=True)}
        samples.append(max(best_utilisation(last, most, factor * last[1], context.seed), 1e-6))
        single.append(best_utilisation(last, 1, factor * last[1], context.seed))
        evidence += [line["id"] for line in lines]
        outcome = Outcome(settings=(Setting(label="so far", samples=tuple(samples)),), drift=DRIFT["seconds"])
    if len(samples) < LEAST:
        return Outcome(lacks=reason or "fewer than two rounds were measured")
    detail = {"single_requests": single, "latency_s": {str(size): value for size, value in last.items()}, "limit_factor": factor}
    label = f"up to {most} a batch, p95 within {factor:g} times a lone request"
    return Outcome(
        settings=(Setting(label=label, samples=tuple(samples), evidence=tuple(evidence), detail=detail),),
        drift=DRIFT["seconds"],
    )


EXPERIMENT = Experiment(
    name="batching",
    title="dynamic batching simulated on latencies measured on this machine",
    basis="measured",
    run=run,
    needs=("backend", "network"),
    options=("execution", "seq", "resolution", "batches", "limit_factor", "most"),
    cost_s=lambda parameters, rounds: rounds * (START_S + ROUND_S * len(parameters.get("batches") or BATCHES)),
)
