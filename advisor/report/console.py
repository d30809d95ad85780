"""The console that reports print to: plain text where the stream is no terminal or NO_COLOR is set."""

from __future__ import annotations

import sys
from typing import Any

#: C0 without line feed and tab, delete, and C1: what a name from a file or a device could steer a terminal with.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


def printable(text: str) -> str:
    """Return ``text`` with control characters written as escapes; lines and tabs stay."""
    return text.translate(_CONTROLS)


def console(*, stderr: bool = False) -> Any:
    """Return a rich console; plain text where the stream is no terminal or NO_COLOR is set."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the command line answers it; rich itself would end the process with status 1

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(printable(item) if isinstance(item, str) else item for item in objects), **options)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 118
    return Plain(stderr=stderr, highlight=False, width=width, soft_wrap=not stream.isatty())
