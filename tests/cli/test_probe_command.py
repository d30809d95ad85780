"""The command: exit statuses, one JSON document, one screen for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.report.probe import device_lines, explain_lines, finding_lines, framework_lines, host_lines, split_findings, verdict

CPUINFO = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 143\nstepping\t: 8\nmodel name\t: A Xeon\nflags\t: fpu lm avx2\n"
)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a recorded machine with a processor and 64 GB."""
    base = tmp_path / "machine"
    (base / "proc").mkdir(parents=True)
    (base / "proc/cpuinfo").write_text(CPUINFO)
    (base / "proc/meminfo").write_text("MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\n")
    return base


def test_json_is_one_document_with_the_names_of_the_contract(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--root", str(recorded), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) >= {"schema_version", "fingerprint", "host", "devices", "frameworks", "findings", "unknown"}
    assert set(document["host"]) >= {"os", "kernel", "arch", "virtualization", "container", "cpu", "memory"}
    assert set(document["host"]["memory"]) >= {"total_bytes", "usable_bytes", "limit_source"}
    assert set(document["devices"][0]["checks"]) == {"present", "driver", "node", "library", "runtime"}
    assert document["schema_version"] == 1
    assert document["frameworks"] == []


def test_text_begins_with_the_verdict_and_fits_a_screen(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--root", str(recorded)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CPU only, 1 CPUs usable")
    assert len(lines) <= 40
    assert all(len(line) <= 118 for line in lines)


def test_explain_and_an_unknown_device(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--root", str(recorded), "--explain", "cpu0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A Xeon: usable")
    assert "profile" in out
    assert run(["probe", "--root", str(recorded), "--explain", "gpu7"]) == 2
    assert capsys.readouterr().err.startswith("error[UNKNOWN-DEVICE]")


def test_check_is_one_on_an_error_finding_only(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.probe import assemble
    from advisor.probe.records import Finding

    assert run(["probe", "--root", str(recorded), "--check", "--json"]) == 0
    monkeypatch.setattr(assemble, "find_all", lambda context: (Finding(code="X", severity="error", message="An error."),))
    assert run(["probe", "--root", str(recorded), "--check", "--json"]) == 1
    assert run(["probe", "--root", str(recorded), "--json"]) == 0


def test_wrong_usage(tmp_path: Path, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--root", str(tmp_path / "missing")]) == 2
    assert run(["probe", "--root", str(recorded), "--record", str(tmp_path / "r")]) == 2
    assert run(["probe", "--record", str(recorded)]) == 2
    assert run(["probe", "--nonsense"]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 4
    assert all(line.startswith("error[") for line in errors)


def test_record_then_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "recorded"
    assert run(["probe", "--no-save", "--json", "--record", str(target)]) == 0
    live = json.loads(capsys.readouterr().out)
    assert run(["probe", "--json", "--root", str(target)]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["host"]["cpu"]["isa"] == live["host"]["cpu"]["isa"]
    assert replayed["host"]["arch"] == live["host"]["arch"]


def test_this_machine_is_saved_and_the_answer_survives_a_bad_database(capsys: pytest.CaptureFixture[str], advisor_home: Path) -> None:
    assert run(["probe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["host"]["cpu"]["usable_cpus"]
    assert (advisor_home / "advisor.db").is_file()
    assert run(["--db", "sqlite:////proc/none/x.db", "probe", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema_version"] == 1
    assert "warning[NOT-SAVED]" in captured.err


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("ADVISOR_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "home", no_home)
    assert run(["probe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["host"]["cpu"]["usable_cpus"]
    assert list(tmp_path.rglob("advisor.db"))


def device(**changes: Any) -> dict[str, Any]:
    fields = {
        "id": "0000:01:00.0", "target": "cuda", "vendor": "NVIDIA", "name": "NVIDIA H100", "arch": "sm_90", "memory_bytes": 80 << 30,
        "memory_kind": "dedicated", "bus_id": "0000:01:00.0", "pci_id": "10de:2330", "uuid": None, "compute_units": 132, "state": "usable",
        "reason": None, "fix": None, "profile": "h100-sxm5-80gb", "package": "p", "links": [], "details": {"power_limit_w": 700},
        "checks": {"present": True, "driver": True, "node": None, "library": False, "runtime": None},
    }  # fmt: skip
    return {**fields, **changes}


def document(*devices: dict[str, Any], findings: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    cpu = {
        "vendor": "AMD", "model": "AMD EPYC 9654", "microarchitecture": "zen4", "isa": ["avx2", "avx512f"], "sockets": 2,
        "physical_cores": 192, "logical_cpus": 384, "usable_cpus": 2.5, "usable_cpus_source": "/sys/fs/cgroup/cpu.max",
        "clusters": [], "numa_nodes": [{}, {}],
    }  # fmt: skip
    memory = {"total_bytes": 1 << 40, "usable_bytes": 8 << 30, "limit_source": "/sys/fs/cgroup/memory.max"}
    host = {"os": "linux", "kernel": "6.8", "arch": "x86_64", "virtualization": "none", "container": "docker", "cpu": cpu, "memory": memory}
    return {"host": host, "devices": list(devices), "frameworks": [], "findings": findings or [], "unknown": {}}


def test_eight_equal_gpus_are_one_line() -> None:
    gpus = [device(id=f"0000:{n:02x}:00.0", bus_id=f"0000:{n:02x}:00.0") for n in range(8)]
    lines = list(device_lines(gpus))
    assert len(lines) == 2
    assert lines[1].startswith("8x NVIDIA H100")
    assert verdict(document(*gpus)) == "8x NVIDIA H100 usable; nothing to mend."


def test_a_broken_one_among_equals_has_its_own_line_and_reason() -> None:
    gpus = [device(id=str(n)) for n in range(7)] + [device(id="7", state="lost", reason="fell off the bus", fix="reboot")]
    lines = list(device_lines(gpus))
    assert lines[1].startswith("7x NVIDIA H100")
    assert any("fell off the bus; fix: reboot" in line for line in lines)
    assert verdict(document(*gpus)).startswith("7x NVIDIA H100 usable, 1 not")


def test_the_verdict_says_why_nothing_is_usable() -> None:
    broken = device(state="no_driver", reason="no driver is bound")
    finding = {"code": "X", "severity": "error", "message": "m", "fix": None}
    assert verdict(document(broken, findings=[finding])) == "1 accelerator found, none usable: no driver is bound; 1 error."
    assert verdict(document(device(target="cpu-x86"))) == "CPU only, 2.50 CPUs usable; nothing to mend."


def test_the_hosts_limits_are_shown() -> None:
    text = "\n".join(host_lines(document()))
    assert "2.50 usable (/sys/fs/cgroup/cpu.max)" in text
    assert "8.0 GiB usable of 1.0 TiB (/sys/fs/cgroup/memory.max)" in text
    assert "(docker)" in text


def test_grave_findings_all_show_and_idle_ones_are_counted() -> None:
    findings = [{"code": f"E{n}", "severity": "warning", "message": "m", "fix": "f"} for n in range(9)]
    findings += [{"code": f"I{n}", "severity": "info", "message": "m", "fix": None} for n in range(9)]
    shown, hidden = split_findings(findings)
    assert (len(shown), hidden) == (15, 3)
    assert finding_lines(findings[0]) == ["m [E0]", "fix: f"]


def test_frameworks_absent_ones_in_one_line() -> None:
    rows = [
        {"name": "torch", "version": "2.8", "state": "usable", "reason": None, "targets": ["cpu-x86", "cuda"], "build": "cuda"},
        {"name": "jax", "version": "0.6", "state": "unknown", "reason": "not queried yet", "targets": [], "build": None},
        {"name": "tvm", "version": None, "state": "no_library", "reason": "not installed", "targets": [], "build": None},
    ]
    lines = list(framework_lines(rows))
    assert lines[0].endswith("2.8 (cuda): cpu-x86, cuda")
    assert lines[2] == "not installed: tvm"
    assert "--frameworks" in lines[3]


def test_explain_gives_five_answers_links_and_reasons() -> None:
    link = {"to": "host", "kind": "PCIe5 x16", "bandwidth_bytes_per_s": 63e9}
    text = "\n".join(explain_lines(device(links=[link]), {"devices[1].uuid": "not read"}))
    for part in (
        "present        yes",
        "library        no",
        "node           not applicable",
        "PCIe5 x16 to host 63.0 GB/s",
        "uuid: unknown, not read",
    ):
        assert part in text
