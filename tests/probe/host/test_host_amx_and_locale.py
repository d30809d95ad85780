"""AMX permission asked in a child, and answers that depend on no locale and on one source."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from advisor.probe.host import _amx, read_host
from advisor.probe.root import Root
from microbench.child import ChildResult, run_child


def child(status: str, stdout: str = "", stderr: str = "", code: int | None = 0) -> ChildResult:
    return ChildResult(status=status, returncode=code, stdout=stdout, stderr=stderr, seconds=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "granted", "reason"),
    [
        (child("ok", "ok\n"), True, None),
        (child("ok", "EPERM\n"), False, "seccomp"),
        (child("ok", "EOPNOTSUPP\n"), False, "hypervisor"),
        (child("ok", "EINVAL\n"), False, "5.16"),
        (child("ok", "EWHATEVER\n"), False, "EWHATEVER"),
        (child("crashed", code=-31), None, "SIGSYS"),
        (child("timeout", code=-9), None, "no answer"),
    ],
)
def test_bug_64_every_answer_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, answer: ChildResult, granted: bool | None, reason: str | None
) -> None:
    monkeypatch.setattr(_amx, "run_child", lambda *args, **kwargs: answer)
    found, why = _amx.permission(Root.live())
    assert found is granted
    assert (why is None) if reason is None else (reason in (why or ""))


def test_bug_64_a_recorded_machine_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(_amx, "run_child", refuse)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 143\nflags\t: lm amx_tile amx_int8\n"
    )
    report = read_host(Root(tmp_path))
    assert "amx_tile" in report.host.cpu.isa
    assert report.facts.amx_permission is None
    assert "recorded" in (report.facts.amx_reason or "")


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="an x86-64 system call")
def test_bug_64_the_child_really_asks() -> None:
    granted, reason = _amx.permission(Root.live())
    # Whatever this machine has: an answer, and a reason with every no.
    assert (granted is True) == (reason is None)


READ = "import json; from dataclasses import asdict; from advisor.probe.host import read_host; from advisor.probe.root import Root; "
SHOW = "print(json.dumps(asdict(read_host(Root.live()).host.cpu)))"


def test_bug_66_and_81_no_locale_changes_the_answer() -> None:
    seen = []
    for locale in ("C", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.eucJP"):
        result = run_child([sys.executable, "-c", READ + SHOW], timeout_s=60, env={**os.environ, "LC_ALL": locale, "LANG": locale})
        assert result.status == "ok", result.stderr
        seen.append(json.loads(result.stdout))
    assert all(cpu == seen[0] for cpu in seen)


def test_bug_66_a_live_host_is_read_without_any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("files of Linux")
    flags = set(read_host(Root.live()).host.cpu.isa)
    if "amx_tile" in flags:
        pytest.skip("AMX permission is asked in a child")

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    assert read_host(Root.live()).host.cpu.logical_cpus
