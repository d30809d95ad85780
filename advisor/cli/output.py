"""How commands speak: one JSON document, or text for people; progress on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import click

from advisor.report.console import console as console


def jsonable(value: Any) -> Any:
    """Return ``value`` with what JSON cannot hold replaced: tuples by lists, non-finite numbers by null."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if hasattr(value, "item"):
        return jsonable(value.item())
    return str(value)


def json_text(document: dict[str, Any]) -> str:
    """Return ``document`` as JSON text, in ASCII where standard output holds nothing more."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
    return json.dumps(jsonable(document), indent=1, ensure_ascii=not unicode)


def emit(document: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], None]) -> None:
    """Print ``document`` as the one JSON document of standard output, or hand it to ``render`` for people."""
    if as_json:
        click.echo(json_text(document))
    else:
        render(document)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
