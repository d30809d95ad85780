"""The console that reports print to: plain text where the stream is no terminal or NO_COLOR is set."""

from __future__ import annotations

import sys
from typing import Any


def console(*, stderr: bool = False) -> Any:
    """Return a rich console; plain text where the stream is no terminal or NO_COLOR is set."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 118
    return Console(stderr=stderr, highlight=False, width=width, soft_wrap=not stream.isatty())
