"""The one child process with a deadline: what can hang, abort or eat all memory runs in one, and costs only itself.

Standard library only, POSIX and Windows. The child leads a session of its own, so that its own children die with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "crashed", "timeout", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """How a child ended. ``failed``: it exited with a status; ``crashed``: a signal ended it; ``missing``: no such program."""

    status: Status
    returncode: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def reason(self) -> str:
        """One sentence for people: why it did not end well."""
        if self.status == "timeout":
            return f"no answer within {self.seconds:.1f} s"
        if self.status == "crashed" and self.returncode is not None:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.returncode).name}"
        if self.status == "missing":
            return "program not found"
        lines = [line for line in self.stderr.strip().splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else f"exit status {self.returncode}"


def run_child(
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    memory_limit_bytes: int | None = None,
    on_line: Callable[[str], None] | None = None,
    cwd: str | None = None,
) -> ChildResult:
    """Run ``argv`` and return how it ended; never raises for what the child does.

    ``env`` replaces the environment when given. ``on_line`` is called with each line of standard output as it comes (in another
    thread), so that what a child reported before it was killed is not lost. The whole process group is killed at the deadline.
    """
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=os.name == "posix",
            preexec_fn=_limiter(memory_limit_bytes),
        )
    except (OSError, ValueError) as error:
        return ChildResult(status="missing", returncode=None, stdout="", stderr=str(error), seconds=time.monotonic() - start)
    out: list[str] = []
    err: list[str] = []
    readers = [
        threading.Thread(target=_drain, args=(process.stdout, out, on_line), daemon=True),
        threading.Thread(target=_drain, args=(process.stderr, err, None), daemon=True),
    ]
    for reader in readers:
        reader.start()
    if stdin is not None and process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(stdin)
            process.stdin.close()
    timed_out = False
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process)
        process.wait()
        for reader in readers:
            reader.join(timeout=2)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
    code = process.returncode
    status: Status = "timeout" if timed_out else "ok" if code == 0 else "crashed" if code < 0 else "failed"
    return ChildResult(status=status, returncode=code, stdout="".join(out), stderr="".join(err), seconds=time.monotonic() - start)


def python_child(module: str, *args: str) -> list[str]:
    """Return the command line that runs ``module`` with this interpreter."""
    return [sys.executable, "-m", module, *args]


def _limiter(limit: int | None) -> Callable[[], None] | None:
    if limit is None or os.name != "posix":
        return None

    def apply() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    return apply


def _drain(stream: object, into: list[str], on_line: Callable[[str], None] | None) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in stream:  # type: ignore[attr-defined]
            into.append(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill the child and all it started; a grandchild may outlive a child that ended well."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
