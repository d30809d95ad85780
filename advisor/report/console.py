"""The console that reports print to: plain text where the stream is no terminal or NO_COLOR is set."""

from __future__ import annotations

import sys
from typing import Any


def console(*, stderr: bool = False) -> Any:
    """Return a rich console; plain text where the stream is no terminal or NO_COLOR is set."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the command line answers it; rich itself would end the process with status 1

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 118
    return Plain(stderr=stderr, highlight=False, width=width, soft_wrap=not stream.isatty())
