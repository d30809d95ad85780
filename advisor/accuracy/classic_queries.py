"""Published vision and BERT-class rows as questions: model, framework, precision, batch a device, and seconds of one step."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from advisor.accuracy.classic_models import model_of, transformer_xl
from advisor.accuracy.published_hardware import profile_of
from advisor.cost.stacks import stack_name
from advisor.errors import AdvisorError
from advisor.hardware.platform import Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.records import Model

Row = Mapping[str, str]
#: Random lengths with an average of half the maximum: kept tokens, when padding is removed.
_EFFECTIVE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicQuery:
    """One measurement. ``batch`` samples a device, ``seq`` tokens a sample (1 for images), ``measured_s`` of one step."""

    id: str
    group: str
    hardware: str
    model: Model
    platform: Platform
    framework: str
    stack: str
    precision: str
    training: bool
    batch: float
    seq: float
    devices: int
    micro_batches: float
    measured_s: float

    @property
    def stratum(self) -> tuple[str, ...]:
        """Rows that are priced in one vectorised call."""
        return (self.model.name, self.platform.profile.id, str(self.platform.nodes), self.stack, self.precision, str(self.training))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def queries_of(rows: Iterable[Row]) -> Iterator[ClassicQuery | tuple[Row, str]]:
    """Yield the question of each row, or the row and the reason why it has none, in order.

    The BERT tables of TensorFlow 2 print two models under one heading, the large one first; the order of rows tells them apart.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        printed = row["model"]
        if printed == "LanguageModeling/BERT" and row["mode"] == "inference" and row["framework"] == "TensorFlow2":
            alike = tuple(row[c] for c in ("task", "hardware", "precision", "batch_per_device", "seq_len_or_resolution"))
            printed = "BERT-large" if seen[alike] == 0 else "BERT-base"
            seen[alike] += 1
        yield _query(row, printed)


def _query(row: Row, printed: str) -> ClassicQuery | tuple[Row, str]:
    batch = _number(row["batch_per_device"])
    if batch is None or batch <= 0:
        return row, "the batch of a device is not given"
    sheet = profile_of(row)
    if sheet is None:
        return row, "the device has no sheet"
    training = row["mode"] == "training"
    model = _xl(row, training) if "transformer-xl" in printed.lower() else model_of(printed, row["task"])
    if model is None:
        return row, f"model {row['model']!r} has no known shapes"
    seq = _number(row["seq_len_or_resolution"]) or float(model.default_seq)
    if model.family == "transformer-xl":
        seq = float(model.default_seq)
    if model.sample == "image":
        seq = 1.0
    devices = int(_number(row["n_devices"]) or 1)
    measured = _step_s(row, model, batch, seq, devices, training)
    if measured is None:
        return row, "neither a rate nor a latency is given"
    try:
        platform = _platform(sheet.id, devices)
    except AdvisorError as error:
        return row, error.message
    whole = _number(row["global_batch"])
    micro = max(round(whole / (batch * devices)), 1) if whole and training else 1
    framework = row["framework"]
    if "effective" in framework.lower() or framework.startswith("EFF-"):
        seq = max(seq * _EFFECTIVE, 1.0)
    return ClassicQuery(
        id=row["id"],
        group=row["group"],
        hardware=row["hw_class"] or row["hardware"],
        model=model,
        platform=platform,
        framework=framework,
        stack=stack_name(framework),
        precision=_precision(row["precision"], framework),
        training=training,
        batch=batch,
        seq=seq,
        devices=devices,
        micro_batches=float(micro),
        measured_s=measured * micro,
    )


def _xl(row: Row, training: bool) -> Model | None:
    text = row["task"].lower()
    size = next((s for s in ("base", "large") if f"{s} model" in text), None)
    return transformer_xl(size, training) if size else None


def _step_s(row: Row, model: Model, batch: float, seq: float, devices: int, training: bool) -> float | None:
    """Return seconds of one micro-batch: samples (or tokens) of it over the printed rate, else the printed latency."""
    rate, latency = _number(row["throughput"]), _number(row["latency_ms"])
    if rate:
        tokens = model.family == "transformer-xl" or "tok" in row["throughput_unit"]
        return batch * devices * (seq if tokens else 1.0) / rate
    return latency * 1e-3 if latency and not training else None


@lru_cache(maxsize=128)
def _platform(profile: str, devices: int) -> Platform:
    return platform_for(parse_spec(f"{devices}x{profile}"))


def _precision(printed: str, framework: str) -> str:
    text = f"{printed} {framework}".lower()
    if "int8" in printed.lower() and "torchscript" not in framework.lower():
        return "int8"
    if re.search(r"fp16|mixed|amp|half", text):
        return "fp16"
    if "bf16" in text:
        return "bf16"
    return "tf32" if "tf32" in text else "fp32"
