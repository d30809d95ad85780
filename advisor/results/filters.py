"""What is asked for: the filters of measurements and of trials, as records. Standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from advisor.errors import UsageError
from advisor.results.rows import now, parse_time

_AGO = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
#: Filters that name values of a column of the same name, several joined by commas.
LISTED = ("benchmark", "backend", "dtype", "origin", "status", "metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which measurements are asked for; None asks for all. Withdrawn ones are left out unless ``retracted`` says otherwise.

    ``benchmark``, ``backend``, ``dtype``, ``origin``, ``status`` and ``metric`` are names, several joined by commas; ``device`` is a
    device's id, its name or profile, or a part of its name; ``machine`` a fingerprint or machine id, or its beginning; ``run`` a run's id,
    or its beginning; ``model`` a part of a model's name. ``latest`` keeps only the newest of each series; ``samples`` gives
    ``sample_seconds`` too.
    """

    benchmark: str | None = None
    backend: str | None = None
    device: str | None = None
    device_ids: tuple[str, ...] | None = None
    """Ids of devices, where ``device`` is no way to name them."""
    dtype: str | None = None
    machine: str | None = None
    origin: str | None = None
    since: datetime | None = None
    status: str | None = None
    model: str | None = None
    metric: str | None = None
    run: str | None = None
    latest: bool = False
    samples: bool = False
    retracted: bool = False
    limit: int | None = None

    def listed(self, name: str) -> list[str] | None:
        """Return the values that the filter ``name`` (one of ``LISTED``) allows, or None where it allows all."""
        value = getattr(self, name)
        return None if value is None else [part for part in value.split(",") if part]

    def narrows(self) -> bool:
        """Tell whether any filter but the number of rows leaves something out that is not withdrawn."""
        return any(getattr(self, name) is not None for name in (*LISTED, "device", "device_ids", "machine", "since", "model", "run"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFilters:
    """Which trials are asked for; None asks for all."""

    model: str | None = None
    task: str | None = None
    framework: str | None = None
    plan_id: str | None = None
    machine: str | None = None
    origin: str | None = None
    since: datetime | None = None
    status: str | None = None
    limit: int | None = None


def since(text: Any) -> datetime | None:
    """Return the instant of an ISO date, or of a span before now such as ``90m``, ``12h``, ``7d``, ``4w``."""
    if isinstance(text, str) and (match := re.fullmatch(r"(\d+)\s*([mhdw])", text.strip())):
        try:
            return now() - timedelta(**{_AGO[match[2]]: int(match[1])})
        except (OverflowError, ValueError) as error:
            raise UsageError(f"{text.strip()!r} before now is before all calendars", "a span such as 12h, 7d or 4w") from error
    return parse_time(text)


def squash(text: str) -> str:
    """Return ``text`` in lower case without separators: people write ``resnet-50`` and ``resnet50``, ``A100-80`` and ``A100 80``."""
    return re.sub(r"[\s_\-]+", "", text.lower())
