"""How a child reads its arguments and answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


class Lacks(Exception):
    """This machine lacks what the child needs; the message says what."""


def answer(work: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> None:
    """Run ``work`` on the arguments of standard input and print its settings; a missing package is an answer too.

    What frameworks print goes to standard error, so that the answer stands alone.
    """
    arguments = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        document: dict[str, Any] = {"settings": work(arguments)}
    except Lacks as error:
        document = {"lacks": str(error)}
    except ImportError as error:
        document = {"lacks": f"{error.name} is not installed" if error.name else str(error)}
    print(json.dumps(document), file=out, flush=True)
