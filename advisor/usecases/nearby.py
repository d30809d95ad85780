"""Published runs near an answer: the same product, the same class of model, about the same size; a reader checks the answer by them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from advisor.plan.records import Plan
from advisor.search.records import Reason
from advisor.units import format_seconds

if TYPE_CHECKING:
    from advisor.usecases.question import Question

#: How far a run may be from the question to be called near: sizes within a factor of 2, devices within a factor of 4.
_SIZE, _DEVICES = 2.0, 4.0
SHOWN = 3


def nearby(question: Question, plan: Plan) -> list[Reason]:
    """Return one Reason that names up to three published rows (ids of db/published), or none where nothing near was published."""
    model, profile = question.model, question.platform.profile.id
    if model.kind not in ("decoder", "encoder", "encoder-decoder", "state-space"):
        return []
    kind = "training" if question.workload.is_training else "inference"
    found = []
    for row in _rows(kind):
        if profile not in row["profiles"]:
            continue
        size = abs(math.log(row["parameters"] / model.parameters))
        devices = abs(math.log(row["devices"] / plan.devices))
        if size <= math.log(_SIZE) and devices <= math.log(_DEVICES):
            found.append((2.0 * size + devices, row))
    found.sort(key=lambda pair: (pair[0], pair[1]["id"]))
    if not found:
        return []
    near = [row for _, row in found[:SHOWN]]
    words = [
        f"{r['id']}: {r['parameters'] / 1e9:.3g} B on {r['devices']} × {r['hardware']} with {r['framework']}, "
        f"{format_seconds(r['time_s'])} " + ("a step" if kind == "training" else "a batch") + (f" of {r['batch']:g}" if r["batch"] else "")
        for r in near
    ]
    text = f"published runs nearby (not this one): {'; '.join(words)}"
    detail = {"ids": [r["id"] for r in near], "rows": [{k: r[k] for k in ("id", "time_s", "devices", "parameters", "batch")} for r in near]}
    return [Reason(code="PUBLISHED", text=text, value=near[0]["id"], detail=detail)]


@lru_cache(maxsize=4)
def _rows(kind: str) -> tuple[dict, ...]:  # type: ignore[type-arg]
    """Return the published rows that name product, size, devices and a time, as little dictionaries."""
    from advisor.accuracy.hardware import CLASSES
    from advisor.results.published import read_published

    kept = []
    for row in read_published(kind):
        known = CLASSES.get(row["hw_class"])
        parameters = _number(row.get("n_params_b")) if kind == "training" else _number(row.get("params"))
        time_s = _number(row.get("step_time_s")) if kind == "training" else _number(row.get("latency_ms"), 1e-3)
        devices = _number(row["n_devices"])
        if known is None or row["status"] != "ok" or not parameters or not time_s or not devices or "unspecified" in row["hw_class"]:
            continue
        billions = parameters if parameters < 1e5 else parameters / 1e9
        kept.append(
            {
                "id": row["id"], "profiles": (known[0],), "parameters": billions * 1e9, "devices": int(devices),
                "hardware": row["hw_class"],
                "framework": row["framework"], "time_s": time_s, "batch": _number(row.get("global_batch") or row.get("batch")),
            }
        )  # fmt: skip
    return tuple(kept)


def _number(text: str | None, factor: float = 1.0) -> float | None:
    try:
        return float(text) * factor if text else None
    except ValueError:
        return None
