"""Tips that claims of articles state, with the verdict that their experiments came to: workers, storage, quantization, precision, more.

Which tip concerns a question is decided here; the sentence and the number are those of the stored verdict, whose id is cited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.model.records import Model
from advisor.plan.records import Plan, Workload
from advisor.search.records import Reason
from advisor.units import format_quantity

Concerns = Callable[[Model, Workload, Plan], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """A claim that is advice: what it is about, and which questions it concerns."""

    claim: str
    topic: str
    concerns: Concerns


def _training(model: Model, workload: Workload, plan: Plan) -> bool:
    return workload.is_training


def _training_in_parts(model: Model, workload: Workload, plan: Plan) -> bool:
    return workload.is_training and plan.devices > 1


def _inference(sample: str) -> Concerns:
    return lambda model, workload, plan: not workload.is_training and model.sample == sample


#: In the order a reader asks.
TIPS = (
    Tip(claim="workers-2x-cpus", topic="data-loader workers", concerns=_training),
    Tip(claim="lmdb-10x", topic="storage of samples", concerns=lambda m, w, p: w.is_training and m.sample == "image"),
    Tip(claim="webdataset-40", topic="storage of samples", concerns=lambda m, w, p: w.is_training and m.sample == "image"),
    Tip(claim="dali-10x", topic="decoding of images", concerns=lambda m, w, p: w.is_training and m.sample == "image"),
    Tip(claim="hf-datasets-mmap-ms", topic="storage of text", concerns=lambda m, w, p: w.is_training and m.sample == "sequence"),
    Tip(claim="amp-3x", topic="precision", concerns=_training),
    Tip(claim="torch-compile-train-gain", topic="compilation", concerns=_training),
    Tip(claim="ckpt-amp-3x", topic="checkpointing", concerns=_training),
    Tip(claim="dp-below-1b", topic="parallelism", concerns=lambda m, w, p: _training_in_parts(m, w, p) and m.parameters < 1e9),
    Tip(claim="mp-above-10b", topic="parallelism", concerns=lambda m, w, p: _training_in_parts(m, w, p) and m.parameters > 1e10),
    Tip(claim="fsdp-comm-20", topic="sharding", concerns=lambda m, w, p: _training_in_parts(m, w, p) and p.sharding != "none"),
    Tip(claim="dynamic-quant-cpu", topic="quantization of a transformer", concerns=_inference("sequence")),
    Tip(claim="static-qat-edge", topic="quantization of a convolutional network", concerns=_inference("image")),
    Tip(claim="ort-arm-latency-60", topic="framework", concerns=lambda m, w, p: not w.is_training),
    Tip(claim="triton-batching-util", topic="batching", concerns=lambda m, w, p: w.task == "serve"),
)  # fmt: skip
#: Verdicts that say something to somebody who decides.
TELLING = ("confirmed", "refuted", "depends")


def proven_advice(model: Model, workload: Workload, plan: Plan, results: Sequence[Mapping[str, Any]], *, local: bool) -> Iterator[Reason]:
    """Yield a reason for every tip that concerns the question and has a stored result that tells.

    ``results`` are stored results of claims on this machine. What was measured here is said of this machine alone (``local``); what
    published rows or the cost model answered is said of any.
    """
    known = {result["id"]: result for result in results}
    for tip in TIPS:
        result = known.get(tip.claim)
        if result is None or result["verdict"] not in TELLING or result["value"] is None or not tip.concerns(model, workload, plan):
            continue
        if result["basis"] == "measured" and not local:
            continue
        yield _reason(tip, result)


def _reason(tip: Tip, result: Mapping[str, Any]) -> Reason:
    unit = result["claim"]["unit"]
    value, low, high = (format_quantity(result[name], unit) for name in ("value", "low", "high"))
    how = {"measured": "measured on this machine", "published": "by published measurements", "predicted": "by the cost model"}
    text = (
        f"{tip.topic}: “{result['claim']['statement'].rstrip('.')}” is {result['verdict']} {how[result['basis']]}, {value} "
        f"({low} to {high}). {result['meaning']} (`advisor claims show {tip.claim}`, measurement {str(result['measurement'])[:8]})"
    )
    detail = {
        "claim": tip.claim,
        "topic": tip.topic,
        "verdict": result["verdict"],
        "basis": result["basis"],
        "interval": [result["low"], result["high"]],
        "measurement": result["measurement"],
        "measured_at": result["measured_at"],
    }
    return Reason(code="PROVEN", text=text, value=float(result["value"]), detail=detail)
