"""From what a user typed to a Question: model, workload and platform, with every assumption written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from advisor.errors import UsageError
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.records import OBJECTIVES, TASKS, Objective, Task, Workload
from advisor.usecases.platforms import ResolvedHardware, resolve_hardware
from advisor.usecases.shared_host import dealt_out

#: Prompt and answer length where none is given: the middle setting of the serving benchmarks that ship with the product
#: (db/published/inference.csv has 128 to 2048 for both).
DEFAULT_INPUT_LEN = 512
DEFAULT_OUTPUT_LEN = 128
MAX_LENGTH = 100_000_000
MAX_BATCH = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question as asked: the options of ``advisor recommend`` under their own names."""

    model: str
    task: str = "train"
    hardware: str = "local"
    seq: int | None = None
    global_batch: int | None = None
    input_len: int | None = None
    output_len: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    objective: str = "throughput"
    limits: Mapping[str, float] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    given: frozenset[str] = frozenset()
    """Names of the options the user typed; the others are echoed as assumptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A resolved question."""

    request: Request
    model: Model
    workload: Workload
    platform: Platform
    hardware: ResolvedHardware
    assumed: dict[str, Any]
    notes: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Return what makes two questions the same, for plan ids: nothing that changes from day to day."""
        w = self.workload
        return {
            "model": self.model.name,
            "parameters": self.model.parameters,
            "hardware": self.hardware.document(),
            "task": w.task,
            "seq_len": w.seq_len,
            "input_len": w.input_len,
            "output_len": w.output_len,
            "concurrency": w.concurrency,
            "request_rate": w.request_rate,
        }

    def on(self, hardware: ResolvedHardware) -> Question:
        """Return the same question on other hardware."""
        return replace(self, hardware=hardware, platform=hardware.platform)

    def model_document(self) -> dict[str, Any]:
        """Return the ``model`` object of the answer."""
        m = self.model
        return {
            "name": m.name,
            "family": m.family,
            "kind": m.kind,
            "parameters": m.parameters,
            "active_parameters": m.active_parameters or m.parameters,
            "transformer": asdict(m.transformer) if m.transformer is not None else None,
            "ignored_fields": list(m.ignored_fields),
        }


def resolve(request: Request, database_url: str | None = None) -> Question:
    """Return the Question behind a Request; UsageError or UnknownName for anything that cannot be meant."""
    from advisor.model.registry import model as find_model

    request = _plain(request)
    _check(request)
    model = find_model(request.model)
    hardware = resolve_hardware(request.hardware, prices=request.prices, database_url=database_url)
    wanted = str(request.fixed.get("devices", 1))
    if hardware.local and hardware.platform.is_cpu and wanted.isdigit() and int(wanted) > 1:
        hardware = dealt_out(hardware, int(wanted))
    workload, assumed, notes = _workload(request, model)
    if "hardware" not in request.given and request.hardware == "local":
        assumed = {**assumed, "hardware": "local"}
    if hardware.assumed_system:
        assumed = {**assumed, "system": hardware.assumed_system}
    if hardware.assumed_network:
        assumed = {**assumed, "network": hardware.assumed_network}
    return Question(
        request=request,
        model=model,
        workload=workload,
        platform=hardware.platform,
        hardware=hardware,
        assumed=assumed,
        notes=(*notes, *hardware.notes),
    )


#: Words people use for a task, as the task and what they pin of the plan besides.
_TASK_WORDS: Mapping[str, tuple[str, dict[str, str]]] = {
    "pretrain": ("train", {}),
    "training": ("train", {}),
    "full-finetune": ("finetune", {"adapter": "none"}),
    "fine-tune": ("finetune", {}),
    "sft": ("finetune", {}),
    "lora": ("finetune", {"adapter": "lora"}),
    "qlora": ("finetune", {"adapter": "qlora"}),
    "inference": ("infer", {}),
    "serving": ("serve", {}),
}


def _plain(r: Request) -> Request:
    """Return the request with the task's own name; ``qlora`` and the like pin the adapter unless it is pinned otherwise."""
    task = r.task.strip().lower().replace("_", "-")
    if task not in _TASK_WORDS:
        return replace(r, task=task)
    name, pins = _TASK_WORDS[task]
    return replace(r, task=name, fixed={**pins, **r.fixed})


def _check(r: Request) -> None:
    if not r.model.strip():
        raise UsageError("--model needs a name or a file", "`advisor models list` shows the names", code="NO-MODEL")
    if not r.hardware.strip():
        raise UsageError(
            "--hardware needs a device, as in 8xa100-sxm4-80gb, or `local`", "`advisor hardware list` shows them", code="NO-HARDWARE"
        )
    if r.task not in TASKS:
        raise UsageError(f"unknown task {r.task!r}", f"one of {', '.join(TASKS)}", code="UNKNOWN-TASK")
    if r.objective not in OBJECTIVES:
        raise UsageError(f"unknown objective {r.objective!r}", f"one of {', '.join(OBJECTIVES)}", code="UNKNOWN-OBJECTIVE")
    for name, top in (("seq", MAX_LENGTH), ("input_len", MAX_LENGTH), ("global_batch", MAX_BATCH), ("concurrency", MAX_BATCH)):
        value = getattr(r, name)
        if value is not None and not 1 <= value <= top:
            raise UsageError(f"--{name.replace('_', '-')} must be between 1 and {top:,}, not {value}", code="OUT-OF-RANGE")
    if r.output_len is not None and not 0 <= r.output_len <= MAX_LENGTH:
        raise UsageError(f"--output-len must be between 0 and {MAX_LENGTH:,}, not {r.output_len}", code="OUT-OF-RANGE")
    if r.request_rate is not None and not 0 < r.request_rate < 1e9:
        raise UsageError(f"--request-rate must be above 0 requests a second, not {r.request_rate}", code="OUT-OF-RANGE")


def _workload(r: Request, model: Model) -> tuple[Workload, dict[str, Any], tuple[str, ...]]:
    assumed: dict[str, Any] = {}

    def default(name: str, value: Any) -> Any:
        assumed[name] = value
        return value

    if "task" not in r.given:
        assumed["task"] = r.task
    if "objective" not in r.given:
        assumed["objective"] = r.objective
    task: Task = r.task  # type: ignore[assignment]
    objective: Objective = r.objective  # type: ignore[assignment]
    generates = task in ("infer", "serve") and model.kind in ("decoder", "state-space", "encoder-decoder")
    if generates:
        longest = r.seq or model.default_seq
        output_len = r.output_len if r.output_len is not None else default("output_len", min(DEFAULT_OUTPUT_LEN, max(1, longest // 4)))
        input_len = r.input_len or default("input_len", max(1, min(DEFAULT_INPUT_LEN, longest - output_len)))
        seq = r.seq or input_len + output_len
        if input_len + output_len > seq:
            raise UsageError(f"--input-len {input_len} and --output-len {output_len} exceed --seq {seq}", code="TOO-LONG")
    else:
        seq = r.seq or r.input_len or (default("seq", model.default_seq) if model.kind != "convolutional" else model.default_seq)
        input_len, output_len = (seq, 0) if task in ("infer", "serve") else (r.input_len, r.output_len)
    _check_positions(model, seq)
    batch = r.global_batch
    if batch is None and r.concurrency is not None and task in ("infer", "serve"):
        batch = r.concurrency
    if batch is None:
        assumed["global_batch"] = "chosen: the knee"
    workload = Workload(
        task=task,
        seq_len=seq,
        global_batch=batch,
        input_len=input_len,
        output_len=output_len,
        concurrency=r.concurrency,
        request_rate=r.request_rate,
        objective=objective,
        limits=dict(r.limits),
    )
    notes: tuple[str, ...] = ()
    if model.ignored_fields:
        notes = (f"fields of the model file that were not understood: {', '.join(model.ignored_fields[:12])}",)
    return workload, assumed, notes


def _check_positions(model: Model, seq: int) -> None:
    """Refuse a sequence longer than learned positions reach; rotary and relative positions only extrapolate badly."""
    t = model.transformer
    if t is not None and t.learned_positions and model.sample == "sequence" and seq > t.max_seq:
        raise UsageError(
            f"{model.name} has learned positions for {t.max_seq} tokens, a sequence of {seq} does not go in",
            f"--seq at most {t.max_seq}",
            code="TOO-LONG",
        )
