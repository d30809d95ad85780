"""How a child reads its arguments and answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


def answer(work: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> None:
    """Run ``work`` on the arguments of standard input and print its settings; a missing package is an answer too."""
    arguments = json.load(sys.stdin)
    try:
        document: dict[str, Any] = {"settings": work(arguments)}
    except ImportError as error:
        document = {"lacks": f"{error.name or error} is not installed (pip install {error.name or ''})".replace(" (pip install )", "")}
    print(json.dumps(document))
