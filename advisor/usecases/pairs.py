"""KEY=VALUE words and numbers, as options give them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from advisor.errors import UsageError


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """Return KEY=VALUE words (each may hold several, joined by commas) as a dictionary; UsageError for anything else."""
    found: dict[str, str] = {}
    for word in (part for value in values for part in value.split(",") if part.strip()):
        key, sign, value = (part.strip() for part in word.partition("="))
        if not (key and sign and value):
            raise UsageError(f"{option} takes KEY=VALUE, not {word!r}", code="NOT-A-PAIR")
        if found.get(key, value) != value:
            raise UsageError(f"{option} gives {key} twice: {found[key]} and {value}", code="GIVEN-TWICE")
        found[key] = value
    return found


def number(text: str, what: str) -> float:
    """Return a finite number, or UsageError naming ``what``."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{what} is a number, not {text!r}", code="NOT-A-NUMBER") from None
    if not math.isfinite(value):
        raise UsageError(f"{what} is a finite number, not {text!r}", code="NOT-A-NUMBER")
    return value
