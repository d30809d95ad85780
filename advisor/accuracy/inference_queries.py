"""Published inference rows as questions: which model, engine and devices, how many sequences of what lengths, and how long a batch took.

Definitions that are inverted to the latency of one batch:
    "(input+output) tokens*batch/latency"   the printed latency stands; where it is blank, (input + output) * batch / rate
    "output tokens/s", "throughput tokens/s" output * batch / rate
    a rate at maximal load                   the batch is the largest whose cache fits
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from advisor.accuracy.published_hardware import profile_of
from advisor.cost.engines import engine_name
from advisor.errors import AdvisorError
from advisor.hardware import load
from advisor.hardware.platform import Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.records import Model
from advisor.model.registry import model

#: "A100-SXM4 (40/80GB not in CSV)" are the 40 GB parts of Polaris (LLM-Inference-Bench, SC'24 workshops, table of platforms).
_UNSTATED_A100: Final = "a100-sxm4-40gb"
#: Engines that queue what their cache cannot hold.
_QUEUES: Final = ("vllm", "tensorrt-llm", "deepspeed-mii")


class UndescribedError(AdvisorError):
    """A row that does not say what was run; the message is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__("ROW", reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceQuery:
    """One measurement. ``chunk``: prompt tokens a pass takes where an engine cuts the prompt; ``batch`` None is maximal load.

    ``cached`` False: every token recomputes the whole sequence.
    """

    id: str
    group: str
    hardware: str
    model: Model
    platform: Platform
    engine: str
    framework: str
    precision: str
    quantization: str
    batch: float | None
    tp: int
    pp: int
    prompt: float
    output: float
    measured_s: float | None
    rate: float | None
    chunk: float | None = None
    cached: bool = True
    memory_bytes: float | None = None

    @property
    def queues(self) -> bool:
        """Tell whether the engine queues sequences whose keys do not fit."""
        return self.engine in _QUEUES

    @property
    def stratum(self) -> tuple[str, ...]:
        """Rows that are priced in one vectorised call."""
        return (
            self.model.name,
            self.platform.name,
            self.engine,
            self.precision,
            self.quantization,
            str(self.chunk is None),
            str(self.cached),
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _model(name: str) -> Model:
    return model(name)


@lru_cache(maxsize=256)
def _platform(profile: str, devices: int) -> Platform:
    return platform_for(parse_spec(f"{devices}x{profile}"))


def query_of(row: Mapping[str, str]) -> InferenceQuery:
    """Return the question a row answers; UndescribedError with the reason where its columns do not say."""
    if row.get("status", "ok") == "oom":
        raise UndescribedError("out of memory: no time was measured")
    sheet = profile_of(row)
    if row["hardware"].startswith("A100-SXM4 (40/80GB"):
        sheet = load.profile(_UNSTATED_A100)
    if sheet is None:
        raise UndescribedError("the device has no sheet")
    try:
        network = _model(row["model"])
    except AdvisorError as error:
        raise UndescribedError(f"model {row['model']!r} is not known") from error
    devices = int(_number(row["n_devices"]) or 1)
    tp, pp = int(_number(row["tp"]) or 1), int(_number(row["pp"]) or 1)
    if row["tp"] == "" and row["pp"] == "":
        tp = devices
    if tp * pp != devices and devices % pp == 0:
        tp = devices // pp
    try:
        platform = _platform(sheet.id, devices)
    except AdvisorError as error:
        raise UndescribedError(error.message) from error
    engine = engine_name(re.sub(r"[/ ].*$", "", row["framework"]))
    prompt, output, batch = _number(row["input_len"]), _number(row["output_len"]) or 0.0, _number(row["batch"])
    if prompt is None:
        raise UndescribedError("the prompt's length is not given")
    chunk = None
    if engine == "llama.cpp" and batch:
        # llama-bench runs one sequence; its batch is how many prompt tokens a pass takes.
        batch, chunk = 1.0, batch
    precision, quantization = _numbers(row["precision"])
    memory = _number(row["mem_gib"])
    return InferenceQuery(
        id=row["id"],
        group=row["group"],
        hardware=row["hw_class"] or row["hardware"],
        model=network,
        platform=platform,
        engine=engine,
        framework=row["framework"],
        precision=precision,
        quantization=quantization,
        batch=batch,
        tp=tp,
        pp=pp,
        prompt=prompt,
        output=output,
        measured_s=_latency(row, batch, prompt, output, chunk),
        rate=_number(row["tokens_per_s"]),
        chunk=chunk,
        cached="Without KV" not in row.get("notes", ""),
        memory_bytes=None if memory is None else memory * 1e9,
    )


def _numbers(printed: str) -> tuple[str, str]:
    text = printed.lower()
    if text.startswith("fp8"):
        return "bf16", "fp8"
    if text.startswith("fp4"):
        return "bf16", "fp4"
    if text.startswith("int8"):
        return "fp16", "int8"
    return ("bf16" if text.startswith("bf16") else "fp32" if text.startswith("fp32") else "fp16"), "none"


def _latency(row: Mapping[str, str], batch: float | None, prompt: float, output: float, chunk: float | None) -> float | None:
    """Return seconds of one batch; the first token alone where no output length is given."""
    latency, rate = _number(row["latency_ms"]), _number(row["tokens_per_s"])
    if latency:
        return latency * 1e-3
    if output == 0.0 and _number(row["ttft_ms"]):
        return (_number(row["ttft_ms"]) or 0.0) * 1e-3
    if not rate or batch is None:
        return None
    both = "input+output" in row["tokens_per_s_kind"]
    return ((prompt if both else 0.0) + output) * batch / rate
