"""A question that came over HTTP: only models and hardware known by name, within limits of size, and no more than a few at once."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from advisor.errors import AdvisorError, UnknownName, UsageError
from advisor.usecases.pairs import number, pairs
from advisor.usecases.question import Request

#: The options of a question, in the order in which they are asked and in which an address carries them.
FIELDS = (
    "model", "task", "hardware", "seq", "global_batch", "input_len", "output_len", "concurrency", "request_rate",
    "objective", "limit", "fix", "price",
)  # fmt: skip
WHOLE = ("seq", "global_batch", "input_len", "output_len", "concurrency")
#: Sizes beyond which a question is for the command line: they bound how long one answer takes.
MOST_DEVICES = 4_096
MOST_BATCH = 1 << 17
MOST_LENGTH = 1 << 21
#: Answers kept, questions answered at once, and how long the next one waits for its turn.
KEPT, AT_ONCE, PATIENCE_S = 256, 2, 20.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+()@:/-]{0,99}")
_FILE_NAME = re.compile(r"\.(json|ya?ml|onnx|py|pt|bin)\b|\.\.|^[~/.]|//", re.IGNORECASE)


class BusyError(AdvisorError):
    """Too many questions at once; ask again in a moment."""


def request_of(values: Mapping[str, str]) -> Request:
    """Return the Request of texts as an address carries them; UsageError where one is wrong, too large, or names a file."""
    given = {name: text.strip() for name, text in values.items() if name in FIELDS and text.strip()}
    for name in ("model", "hardware"):
        _check_name(name, given.get(name))
    whole = {name: _whole(name, given[name]) for name in WHOLE if name in given}
    rate = number(given["request_rate"], "request_rate") if "request_rate" in given else None
    return Request(
        model=given["model"],
        task=given.get("task", "train"),
        hardware=given.get("hardware", "local"),
        request_rate=rate,
        objective=given.get("objective", "throughput"),
        limits={key: _positive(value, f"limit {key}") for key, value in _limits(given.get("limit", "")).items()},
        fixed=pairs([given.get("fix", "")], "fix"),
        prices={key: number(value, f"price {key}") for key, value in pairs([given.get("price", "")], "price").items()},
        given=frozenset(given),
        **whole,  # type: ignore[arg-type]
    )


def _check_name(what: str, text: str | None) -> None:
    if text is None:
        if what == "model":
            raise UsageError("a question needs a model", "`/recommend?model=gpt-13b`", code="NO-MODEL")
        return
    if not _NAME.fullmatch(text) or _FILE_NAME.search(text):
        raise UsageError(f"{what} is a known name here, not a file or an address: {text[:60]!r}", code="BAD-NAME")
    if what == "model":
        from advisor.model.registry import is_known, model_names

        if not is_known(text):
            raise UnknownName("model", text, model_names())
    elif sum(int(digits) for digits in re.findall(r"\d{6,}", text)[:1]) > MOST_DEVICES:
        raise UsageError(f"at most {MOST_DEVICES:,} devices are asked about here", "`advisor recommend` has no such limit", "TOO-LARGE")


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text):
        raise UsageError(f"{name} is a whole number, not {text[:40]!r}", code="NOT-A-NUMBER")
    most = MOST_LENGTH if name in ("seq", "input_len", "output_len") else MOST_BATCH
    if int(text) > most:
        raise UsageError(f"{name} is at most {most:,} here", "`advisor recommend` has no such limit", "TOO-LARGE")
    return int(text)


def _limits(text: str) -> dict[str, str]:
    from advisor.search.objective import LIMITS

    found = pairs([text], "limit")
    for key in found:
        if key not in LIMITS:
            raise UnknownName("limit", key, LIMITS)
    return found


def _positive(text: str, what: str) -> float:
    value = number(text, what)
    if value <= 0:
        raise UsageError(f"{what} must be above 0", code="OUT-OF-RANGE")
    return value


class Answers:
    """Answers of the cost model, remembered by question; at most a few are worked out at once."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._kept: OrderedDict[tuple[tuple[str, str], ...], dict[str, Any]] = OrderedDict()
        self._turn = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()

    def answer(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the document of ``advisor recommend`` for a question; nothing is stored. BusyError where others are in front."""
        request = request_of(values)
        key = tuple(sorted((name, text.strip()) for name, text in values.items() if name in FIELDS and text.strip()))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if not self._turn.acquire(timeout=PATIENCE_S):
            raise BusyError("BUSY", "other questions are being answered", "ask again in a few seconds")
        try:
            document = _answer(request, self._url)
        finally:
            self._turn.release()
        with self._lock:
            self._kept[key] = document
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return document


def _answer(request: Request, database_url: str) -> dict[str, Any]:
    from advisor.usecases.explain import formulas
    from advisor.usecases.platforms import resolve_hardware
    from advisor.usecases.recommend import recommend

    devices = resolve_hardware(request.hardware, prices=request.prices).platform.devices
    if devices > MOST_DEVICES:
        raise UsageError(f"at most {MOST_DEVICES:,} devices are asked about here", "`advisor recommend` has no such limit", "TOO-LARGE")
    document = recommend(request, database_url=database_url, save=False).to_dict()
    best = document["recommendation"]
    return document | {"formulas": formulas(document, best["plan"], best["estimate"]) if best else []}


def choices() -> dict[str, list[str]]:
    """Return the names that a form offers: models, devices, tasks, objectives."""
    from advisor.hardware.load import all_profiles
    from advisor.model.registry import model_names
    from advisor.plan.records import OBJECTIVES, TASKS

    return {
        "models": list(model_names()),
        "devices": sorted(all_profiles()),
        "tasks": list(TASKS),
        "objectives": list(OBJECTIVES),
    }
