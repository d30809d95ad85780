"""What a vendor's tool prints: on this machine by running it with a deadline, on a recorded one from ``tools/``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.probe.root import Root
from microbench.child import run_child

DEADLINE_S = 6.0

Status = Literal["ok", "absent", "failed", "crashed", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """The output of a tool, and how it ended. ``text`` may hold an error message of the tool: some print it to stdout."""

    status: Status
    text: str = ""
    reason: str | None = None


def recorded(root: Root, name: str) -> str | None:
    """Return what a tool printed on a recorded machine (``tools/nvidia-smi-L.txt``), or None."""
    return None if root.is_live else root.text(f"/tools/{name}")


def find_tool(name: str, environ: dict[str, str], extra: Sequence[str] = ()) -> str | None:
    """Return where a program lies on the path of ``environ`` or in the folders ``extra``, or None."""
    path = os.pathsep.join([environ.get("PATH", os.defpath), *extra])
    return shutil.which(name, path=path)


def run_tool(argv: Sequence[str], environ: dict[str, str], *, deadline_s: float = DEADLINE_S, extra: Sequence[str] = ()) -> ToolText:
    """Run a vendor's tool under ``LC_ALL=C`` with a deadline; it is killed with all its children when the deadline passes."""
    program = find_tool(argv[0], environ, extra)
    if program is None:
        return ToolText(status="absent", reason=f"{argv[0]} is not on the path")
    result = run_child([program, *argv[1:]], timeout_s=deadline_s, env={**environ, "LC_ALL": "C", "LANG": "C"})
    if result.status == "missing":
        return ToolText(status="absent", reason=f"{argv[0]} could not be started: {result.reason}")
    text = result.stdout if result.stdout.strip() else result.stderr
    if result.status == "ok":
        return ToolText(status="ok", text=text)
    return ToolText(status=result.status, text=text, reason=f"{argv[0]}: {result.reason}")


def tool_text(root: Root, name: str, argv: Sequence[str], *, extra: Sequence[str] = ()) -> ToolText:
    """Return what ``argv`` prints on this machine, or what the file ``tools/<name>`` of a recorded machine holds."""
    if root.is_live:
        return run_tool(argv, root.environ, extra=extra)
    text = recorded(root, name)
    return ToolText(status="ok", text=text) if text is not None else ToolText(status="absent", reason=f"tools/{name} was not recorded")
