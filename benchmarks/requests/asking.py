"""Random questions, legal and not, and what must hold of every answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from advisor.errors import AdvisorError
from advisor.hardware.load import all_profiles
from advisor.model.registry import model_names
from advisor.plan.legal import violations
from advisor.plan.records import (
    ADAPTERS,
    ATTENTIONS,
    EXECUTIONS,
    OBJECTIVES,
    OFFLOADS,
    OPTIMIZERS,
    PLAN_FIELDS,
    PRECISIONS,
    QUANTIZATIONS,
    RECOMPUTES,
    SHARDINGS,
    TASKS,
    Plan,
)
from advisor.search.objective import LIMITS
from advisor.search.space import context_for
from advisor.usecases.question import Request, resolve
from advisor.usecases.recommend import recommend

_NAMES = {
    "execution": EXECUTIONS, "precision": PRECISIONS, "quantization": QUANTIZATIONS, "sharding": SHARDINGS, "recompute": RECOMPUTES,
    "offload": OFFLOADS, "optimizer": OPTIMIZERS, "adapter": ADAPTERS, "attention": ATTENTIONS,
    "framework": ("torch", "megatron", "deepspeed", "jax", "vllm", "tensorrt-llm", "onnxruntime"), "sequence_parallel": ("true", "false"),
}  # fmt: skip
_JUNK = st.text(max_size=12)
_NUMBERS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 40, 64, 100, 512, 1000, 2048, 4096, 10**6, 2**40, 0, -1])
_COUNTS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 96, 128, 1000, 1024, 0, 10**7])


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any], one_in: int = 12) -> st.SearchStrategy[Any]:
    """Return ``usual``, and once in a while ``odd``: several parts that are often wrong together never reach the search."""
    return st.integers(1, one_in).flatmap(lambda number: odd if number == one_in else usual)


@st.composite
def fixed(draw: st.DrawFn) -> dict[str, str]:
    """Return up to three pinned fields."""
    pins: dict[str, str] = {}
    names = mostly(st.lists(st.sampled_from(PLAN_FIELDS), max_size=2, unique=True), st.just(["nope"]), 30)
    for name in draw(mostly(st.just([]), names, 2)):
        values = st.sampled_from(_NAMES[name]) if name in _NAMES else st.sampled_from(["1", "2", "4", "8", "16"])
        pins[name] = draw(mostly(values, st.one_of(_JUNK, _NUMBERS.map(str))))
    return pins


def hardware() -> st.SearchStrategy[str]:
    """Return hardware as people type it, or nothing that could be meant."""
    names = st.sampled_from(sorted(all_profiles()))
    one = st.tuples(_COUNTS, names).map(lambda pair: f"{pair[0]}x{pair[1]}")
    nodes = st.tuples(_COUNTS, _COUNTS, names).map(lambda three: f"{three[0]}x{three[1]}x{three[2]}")
    mixed = st.tuples(one, one).map("+".join)
    slices = st.sampled_from(["tpu-v5p-128", "v4-256", "v5litepod-8", "v6e-16", "tpu-v5p-7", "v3-8"])
    return mostly(mostly(one, st.one_of(nodes, mixed, slices, names), 3), _JUNK, 20)


def requests() -> st.SearchStrategy[Request]:
    """Return requests, most of which could be meant."""
    names = sorted(model_names())
    often = st.sampled_from(["gpt-13b", "llama-2-7b", "bert-base", "resnet-50", "mixtral-8x7b", "t5-large", "gpt-125m", "vit-b-16"])
    length = mostly(st.none(), mostly(st.sampled_from([64, 128, 512, 1024, 2048]), _NUMBERS, 5), 3)
    priced = {"a100-sxm4-80gb": 2.0, "h100-sxm5-80gb": 3.0}
    return st.builds(
        Request,
        model=mostly(mostly(often, st.sampled_from(names), 2), _JUNK, 25),
        task=mostly(st.sampled_from(TASKS), st.sampled_from(["lora", "qlora", "inference", "think"]), 8),
        hardware=hardware(),
        seq=length,
        global_batch=length,
        input_len=length,
        output_len=length,
        concurrency=length,
        request_rate=mostly(st.none(), st.sampled_from([0.5, 10.0, 1e5, 0.0, -1.0]), 5),
        objective=mostly(mostly(st.just("throughput"), st.sampled_from(OBJECTIVES), 3), st.just("speed"), 30),
        limits=mostly(
            st.just({}), st.dictionaries(st.sampled_from(LIMITS), st.sampled_from([1e-6, 0.01, 1.0, 100.0, 4e10]), max_size=2), 4
        ),
        fixed=fixed(),
        prices=mostly(
            st.sampled_from([{}, priced]), st.sampled_from([{"nope": 1.0}, {"a100-sxm4-80gb": -1.0}, {"a100-sxm4-80gb": 1e9}]), 20
        ),
        seed=st.integers(0, 3),
    )


def ask(request: Request) -> str:
    """Ask once and return how it ended; AssertionError where an answer is not what an answer must be, any other error as it comes."""
    try:
        answer = recommend(request, save=False)
    except AdvisorError as error:
        return _refused(error)
    document: dict[str, Any] = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert document["verdict"]
    assert document["feasible"] == (document["recommendation"] is not None)
    question = resolve(request)
    shown = [answer.recommendation, *answer.alternatives] if answer.recommendation is not None else []
    for candidate in shown:
        _check_plan(request, candidate.plan)
        context = context_for(question.model, question.workload, question.platform)
        broken = violations(candidate.plan, context)
        # Of mixed devices the answer may take one kind alone, which is another platform.
        assert not broken or question.hardware.parts, (candidate.plan, broken)
        assert candidate.estimate.fits
    return "yes" if shown else "no"


def _refused(error: AdvisorError) -> str:
    line = error.line()
    assert line.startswith(f"error[{error.code}]: "), line
    assert "\n" not in line, line
    return f"error[{error.code}]"


def _check_plan(request: Request, plan: Plan) -> None:
    assert plan.dp * plan.tp * plan.pp * plan.cp == plan.devices
    assert plan.micro_batch * plan.grad_accumulation * plan.dp == plan.global_batch
    for name, value in request.fixed.items():
        got = getattr(plan, name)
        same = str(got).lower() == str(value).lower() or (isinstance(got, int) and str(int(got)) == str(int(str(value))))
        assert same, (name, value, got)


def twice(request: Request) -> str:
    """Ask twice; the second answer must be the first."""
    first, second = _plans(request), _plans(request)
    assert first == second
    return ask(request)


def _plans(request: Request) -> Any:
    try:
        answer = recommend(request, save=False)
    except AdvisorError as error:
        return error.line()
    shown = [answer.recommendation, *answer.alternatives] if answer.recommendation is not None else []
    return answer.verdict, [c.plan_id for c in shown]
