"""Between the dictionaries that the other parts speak and the rows of the tables. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from advisor.errors import UsageError
from advisor.results.hash import canonical_json, clean, content_hash, new_id, pack_samples, text_hash, unpack_samples

#: The fields of a measurement that its content hash covers, besides samples, run, device and time.
MEASURED_FIELDS = (
    "benchmark", "backend", "backend_version", "dtype", "params", "metric", "unit", "value", "low", "high", "run_low", "run_high",
    "samples", "seconds", "status", "reason", "max_error", "conditions", "source",
)  # fmt: skip
TEXT_FIELDS = ("backend_version", "unit", "status", "reason", "source")
METRIC_UNITS = {"flops_per_s": "FLOP/s", "bytes_per_s": "B/s", "seconds": "s", "samples_per_s": "samples/s"}


#: Kinds of values that every database holds as they are.
_CLEAN = frozenset((int, bool, type(None)))


def now() -> datetime:
    """Return this instant in UTC."""
    return datetime.now(UTC)


def parse_time(text: str | datetime | None) -> datetime | None:
    """Return the instant of an ISO 8601 text; one without a zone is UTC. Raises UsageError where it is none."""
    if text is None or isinstance(text, datetime):
        return text if text is None or text.tzinfo else text.replace(tzinfo=UTC)
    try:
        value = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise UsageError(f"not a date or time: {text!r}", "write it as 2026-01-31 or 2026-01-31T12:00:00Z") from error
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def iso(value: datetime | None) -> str | None:
    """Return the text form of an instant, always in UTC with six decimals, so that hashes agree."""
    return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")


def series_key(machine: str | None, device: str, benchmark: str, backend: str, dtype: str, params: str) -> str:
    """Return what two measurements of the same thing share; ``params`` is their canonical JSON."""
    return text_hash(machine or "", device, benchmark, backend, dtype, params)[:32]


def measurement_row(m: Mapping[str, Any], *, run_id: str, machine: str | None, device_id: str, origin: str) -> dict[str, Any]:
    """Return the row of a measurement dictionary (``microbench.protocol.Measurement.to_dict()`` or an exported line).

    Besides the columns it has ``canonical_params``, the canonical JSON of its parameters.
    ``machine`` is the fingerprint of its machine. Raises UsageError where a field that must be there is not.
    """
    required = ("benchmark", "backend", "device", "dtype", "metric")
    missing = [name for name in required if not isinstance(m.get(name), str)]
    if missing:
        raise UsageError(f"a measurement lacks {', '.join(missing)}")
    fields = {name: value if type(value := m.get(name)) in _CLEAN else clean(value) for name in MEASURED_FIELDS}
    fields["params"] = fields["params"] or {}
    fields["conditions"] = fields["conditions"] or {}
    fields["unit"] = fields["unit"] or METRIC_UNITS.get(m["metric"], "")
    fields["status"] = fields["status"] or ("ok" if fields["value"] is not None else "failed")
    fields["samples"] = _integer("samples", fields["samples"] or 0)
    wrong = [name for name in TEXT_FIELDS if not isinstance(fields[name], str | None)]
    wrong += [name for name in ("params", "conditions") if not isinstance(fields[name], dict)]
    if wrong:
        raise UsageError(f"a measurement's {wrong[0]} is of the wrong kind")
    for name in ("value", "low", "high", "run_low", "run_high", "max_error", "seconds"):
        if fields[name] is not None:
            fields[name] = _number(name, fields[name])
    fields["seconds"] = fields["seconds"] or 0.0
    samples = pack_samples(_samples(m.get("sample_seconds")))
    measured_at = parse_time(m["measured_at"]) if "measured_at" in m else now()
    params = canonical_json(fields["params"])
    model = fields["params"].get("model") or fields["params"].get("model_name")
    return {
        **fields,
        "id": check_id("id", m.get("id")) or new_id(),
        "run_id": run_id,
        "device_id": device_id,
        "series": series_key(machine, m["device"], fields["benchmark"], fields["backend"], fields["dtype"], params),
        "model": model if isinstance(model, str) else None,
        "canonical_params": params,
        "sample_seconds": samples,
        "origin": origin,
        "measured_at": measured_at,
        "content_hash": measurement_hash(fields, params, m["device"], run_id, measured_at, samples),
    }


def _samples(value: Any) -> list[float] | None:
    if value is None or (isinstance(value, list | tuple) and all(type(item) in (int, float) for item in value)):
        return None if value is None else list(value)
    raise UsageError("a measurement's sample_seconds are not numbers")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"a measurement's {name} is not a number: {value!r}")
    return float(value)


def measurement_hash(
    fields: Mapping[str, Any], params: str, device: str, run_id: str, measured_at: datetime | None, samples: bytes | None
) -> str:
    """Return the content hash of a measurement: all but its own id, its origin and what follows from the rest."""
    conditions = canonical_json(fields["conditions"])
    content = [fields[name] for name in MEASURED_FIELDS if name not in ("params", "conditions")]
    content += [params, conditions, device, run_id, iso(measured_at), (samples or b"").hex()]
    return content_hash(content, cleaned=True)


def measurement_dict(row: Mapping[str, Any], *, samples: bool) -> dict[str, Any]:
    """Return the dictionary of a row joined with its device, machine and retraction."""
    document = dict(row)
    document["measured_at"] = iso(row["measured_at"])
    blob = document.pop("sample_seconds", None)
    if samples:
        document["sample_seconds"] = unpack_samples(blob)
    return document


def check_id(name: str, value: Any) -> Any:
    """Return an id if it is a text that the tables can hold (36 characters, as a UUID has); UsageError otherwise."""
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= 36):
        raise UsageError(f"{name} is not an id: {str(value)[:60]!r}")
    return value


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise UsageError(f"a measurement's {name} is not a count: {str(value)[:60]}")
    return value


def trial_row(trial: Mapping[str, Any], *, run_id: str, origin: str) -> dict[str, Any]:
    """Return the row of a trial: any dictionary with ``plan`` (and ``plan_id``, ``model``, ``task``, ``status`` where known)."""
    document = clean({key: value for key, value in trial.items() if key not in ("id", "run_id", "measured_at", "origin", "content_hash")})
    plan = document.get("plan") if isinstance(document.get("plan"), dict) else {}
    model = document.get("model")
    if isinstance(model, dict):
        model = model.get("name")
    measured_at = parse_time(trial.get("measured_at")) or now()
    return {
        "id": check_id("id", trial.get("id")) or new_id(),
        "run_id": run_id,
        "plan_id": _text(document.get("plan_id")),
        "model": _text(model),
        "task": _text(document.get("task")),
        "framework": _text(document.get("framework") or plan.get("framework")),
        "status": _text(document.get("status")) or "ok",
        "document": document,
        "origin": origin,
        "measured_at": measured_at,
        "content_hash": content_hash({"document": document, "run_id": run_id, "measured_at": iso(measured_at)}),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
