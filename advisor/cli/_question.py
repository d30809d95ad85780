"""The options that every question shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from advisor.usecases.pairs import number, pairs

F = TypeVar("F", bound=Callable[..., Any])


class Whole(click.ParamType):
    """A whole number as people type it: 512, 1_024, 4k, 2M."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().replace("_", "").replace(",", "")
        factor = {"k": 1024, "m": 1024**2}.get(text[-1:].lower(), 1)
        try:
            return int(text[:-1] if factor > 1 else text) * factor
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)


WHOLE = Whole()

_OPTIONS = (
    click.option(
        "--model", required=True, metavar="NAME|FILE", help="A model by name, a config.json, an ONNX file, or path.py:build_model."
    ),
    click.option("--task", default="train", metavar="TASK", help="train, finetune, infer or serve.  [default: train]"),
    click.option("--seq", type=WHOLE, metavar="N", help="Sequence length in tokens.  [default: the model's own maximum]"),
    click.option("--global-batch", type=WHOLE, metavar="N", help="Sequences or images a step.  [default: chosen, the knee]"),
    click.option("--input-len", type=WHOLE, metavar="N", help="Prompt tokens of a request."),
    click.option("--output-len", type=WHOLE, metavar="N", help="Generated tokens of a request."),
    click.option("--concurrency", type=WHOLE, metavar="N", help="Requests in flight at once."),
    click.option("--request-rate", type=float, metavar="R", help="Requests a second."),
    click.option(
        "--objective", default="throughput", metavar="GOAL", help="throughput, latency, cost, energy or memory.  [default: throughput]"
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="KEY=VALUE",
        help="ttft_s, tpot_s, latency_s, memory_bytes_per_device, cost_usd, devices (at most); throughput (at least).",
    ),
    click.option("--fix", "fixes", multiple=True, metavar="KEY=VALUE", help="Pin a field of the plan, as in precision=bf16."),
    click.option("--price", "prices", multiple=True, metavar="PROFILE=USD_PER_HOUR", help="What a device-hour costs you."),
    click.option("--seed", type=int, default=0, metavar="N", help="Seed of the search.  [default: 0]"),
)

hardware_option = click.option(
    "--hardware",
    "--gpus",
    "--device",
    "hardware",
    default="local",
    metavar="SPEC",
    help="local, or so many devices: 64xa100-sxm4-80gb, tpu-v5p-128.  [default: local]",
)


def question_options(function: F) -> F:
    """Add the options of a question to a command (all but --hardware)."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def request_from(options: dict[str, Any], hardware: str | None = None) -> Any:
    """Return the Request that a command's options describe, remembering which of them the user typed."""
    from advisor.usecases.question import Request

    given = _given()
    limits = {k: number(v, f"--limit {k}") for k, v in pairs(options.pop("limits"), "--limit").items()}
    _check_limits(limits)
    return Request(
        model=options["model"],
        task=options["task"],
        hardware=hardware if hardware is not None else options["hardware"],
        seq=options["seq"],
        global_batch=options["global_batch"],
        input_len=options["input_len"],
        output_len=options["output_len"],
        concurrency=options["concurrency"],
        request_rate=options["request_rate"],
        objective=options["objective"],
        limits=limits,
        fixed=pairs(options.pop("fixes"), "--fix"),
        prices={k: number(v, f"--price {k}") for k, v in pairs(options.pop("prices"), "--price").items()},
        seed=options["seed"],
        given=frozenset(given),
    )


def _check_limits(limits: dict[str, float]) -> None:
    from advisor.errors import UnknownName, UsageError
    from advisor.search.objective import LIMITS

    for key, value in limits.items():
        if key not in LIMITS:
            raise UnknownName("limit", key, LIMITS)
        if value <= 0:
            raise UsageError(f"--limit {key} must be above 0, not {value:g}", code="OUT-OF-RANGE")


def _given() -> set[str]:
    ctx = click.get_current_context()
    commandline = click.core.ParameterSource.COMMANDLINE
    return {name for name in ctx.params if ctx.get_parameter_source(name) == commandline}
