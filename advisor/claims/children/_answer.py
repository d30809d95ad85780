"""How a child reads its arguments and answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


class Lacks(Exception):
    """This machine lacks what the child needs; the message says what."""


def answer(work: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> None:
    """Run ``work`` on the arguments of standard input and print its settings; a missing package is an answer too."""
    arguments = json.load(sys.stdin)
    try:
        document: dict[str, Any] = {"settings": work(arguments)}
    except Lacks as error:
        document = {"lacks": str(error)}
    except ImportError as error:
        document = {"lacks": f"{error.name} is not installed" if error.name else str(error)}
    print(json.dumps(document))
