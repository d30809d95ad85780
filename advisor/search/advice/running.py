"""Running the plan: whether compiling pays and after how many steps, how many data-loader workers feed it, which batch to set."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.frameworks import framework
from advisor.search.advice._case import Case
from advisor.search.records import Reason
from advisor.units import format_count, format_seconds

#: Layers of the model on which the descriptors' ``prepare_compile_s`` was timed (BERT-base); tracing time grows with layers.
_COMPILE_LAYERS = 12
#: Forward and backward graphs are compiled, so training takes about twice as long to compile as inference.
_TRAINING_GRAPHS = 2.0
#: CPU seconds to make one sample where nothing was measured: decoding and cropping one photograph of ImageNet's size runs at about 100
#: a second and core (PIL; Lightning and FFCV report 80 to 150), a tokenized text is sliced from a memory map in about 0.1 ms.
IMAGE_SAMPLE_S = 0.01
TEXT_SAMPLE_S = 1e-4


def running_advice(case: Case) -> Iterator[Reason]:
    """Yield what it takes to run the plan well."""
    yield from _compile(case)
    yield from _loader(case)
    if case.workload.is_training:
        p = case.plan
        text = (
            f"batch to set: micro-batch {p.micro_batch} × accumulation {p.grad_accumulation} × data-parallel {p.dp} = {p.global_batch} "
            + ("images" if case.model.sample == "image" else "sequences")
        )
        if case.model.sample == "sequence":
            text += f" ({format_count(float(p.global_batch * case.workload.seq_len))} tokens) a step"
        yield Reason(code="BATCH", text=text, value=float(p.global_batch))


def _compile(case: Case) -> Iterator[Reason]:
    plan = case.plan
    spec = framework(plan.framework)
    if spec is None or plan.execution not in ("eager", "compile") or case.ranking is None:
        return
    other = "compile" if plan.execution == "eager" else "eager"
    row, prior = case.sibling(execution=other), spec.overheads.get("prepare_compile_s")
    time_s = case.time_s
    if row is None or prior is None or time_s is None:
        return
    beside = float(case.ranking.priced.time_s[row])
    eager, compiled = (time_s, beside) if plan.execution == "eager" else (beside, time_s)
    layers = case.model.transformer.layers if case.model.transformer is not None else _COMPILE_LAYERS
    seconds = prior * max(1.0, layers / _COMPILE_LAYERS) * (_TRAINING_GRAPHS if case.workload.is_training else 1.0)
    gain = eager - compiled
    steps = math.ceil(seconds / gain) if gain > 1e-3 * eager else None
    what = "step" if case.workload.is_training else "batch"
    if steps is None:
        loss = f", {format_seconds(-gain)} a {what} slower" if gain < 0 else ""
        text = f"torch.compile gains nothing here{loss}: large products run in the same library kernels; stay on eager"
    else:
        text = f"torch.compile takes about {format_seconds(seconds)} once (a prior) and gains {format_seconds(gain)} a {what}"
        text += f": it pays after {steps:,} of them"
    if case.model.sample == "sequence":
        text += "; where lengths vary pad to a few (buckets) or set dynamic=True, since each new length compiles again"
    detail = {"compile_seconds": seconds, "gain_per_step": gain, "break_even_steps": steps, "dynamic": case.model.sample == "sequence"}
    yield Reason(code="COMPILE", text=text, value=None if steps is None else float(steps), detail=detail)


def _loader(case: Case) -> Iterator[Reason]:
    """Workers = samples a second of one rank times CPU seconds of a sample, no more than the CPUs a rank has."""
    rate = case.estimate.throughput
    if not case.workload.is_training or rate is None:
        return
    image = case.model.sample == "image"
    samples = rate.value if case.estimate.throughput_unit == "images/s" else rate.value / max(case.workload.seq_len, 1)
    ranks = case.platform.devices
    needed = samples / ranks * (IMAGE_SAMPLE_S if image else TEXT_SAMPLE_S)
    # At least two, so that one prepares while the other is read; fewer CPUs than that and the loader shares the step's own.
    workers = max(2, math.ceil(1.25 * needed))
    share = None
    if case.platform.is_cpu or case.platform.threads > 1:
        share = max(1, case.platform.threads // case.platform.devices_per_node)
        workers = min(workers, max(1, share - (1 if case.platform.is_cpu and share > 1 else 0)))
    cap = (
        f", no more than the {share} CPUs a rank may use"
        if share is not None
        else f", given that many CPUs for each of {case.platform.devices_per_node} ranks of a node"
    )
    text = (
        f"data loader: {workers} workers a rank ({samples / ranks:.3g} samples/s at "
        f"{1e3 * (IMAGE_SAMPLE_S if image else TEXT_SAMPLE_S):.3g} ms of CPU "
        f"each, a prior: `advisor bench dataload` measures yours){cap}"
    )
    detail = {"workers_per_rank": workers, "samples_per_s_per_rank": samples / ranks, "cpus_per_rank": share}
    yield Reason(code="LOADER", text=text, value=float(workers), detail=detail)
