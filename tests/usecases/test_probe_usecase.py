"""The use case: one machine joined with sheets, explained, saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.errors import UnknownName, UsageError
from advisor.probe.assemble import device_paths, fingerprint, probe_machine, sort_findings
from advisor.probe.host import read_host
from advisor.probe.records import Device, Finding
from advisor.probe.root import Root
from advisor.results.machines import machine_row
from advisor.results.store import Store
from advisor.usecases.probe import explain, join_profiles, probe
from advisor.usecases.save_machine import just_seen, save_machine

CPUINFO = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 143\nstepping\t: 8\nmodel name\t: A Xeon\nflags\t: fpu lm avx2\n"
)
GPU = Device(
    id="0000:01:00.0", target="cuda", vendor="NVIDIA", name="A GPU", arch="sm_90", state="usable", bus_id="0000:01:00.0", uuid="GPU-1"
)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a recorded machine: one Xeon, some memory."""
    base = tmp_path / "machine"
    (base / "proc").mkdir(parents=True)
    (base / "proc/cpuinfo").write_text(CPUINFO)
    (base / "proc/meminfo").write_text("MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\n")
    return base


def test_a_recorded_machine_calls_nothing_here(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a child was started for a recorded machine")

    monkeypatch.setattr("subprocess.Popen", refuse)
    machine = probe(recorded)
    assert machine.frameworks == ()
    assert machine.host.cpu.microarchitecture == "sapphirerapids"
    assert machine.devices[0].id == "cpu0"
    assert machine.devices[0].target == "cpu-x86"
    assert machine.devices[0].memory_bytes == 64000000 * 1024


def test_a_device_without_a_sheet_says_what_is_nearest(recorded: Path) -> None:
    machine = probe(recorded)
    assert machine.devices[0].profile is None
    assert machine.unknown["devices[0].profile"].startswith("unknown")


def test_a_device_with_a_sheet_gets_its_id(recorded: Path) -> None:
    machine = probe(recorded)
    a100 = replace(GPU, name="NVIDIA A100-SXM4-80GB", arch="sm_80", pci_id="10de:20b2", memory_bytes=85899345920)
    joined = join_profiles(replace(machine, devices=(machine.devices[0], a100)))
    assert joined.devices[1].profile == "a100-sxm4-80gb"
    assert "devices[1].profile" not in joined.unknown


def test_sheets_that_cannot_be_read_do_not_lose_the_answer(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_PROFILE_PATH", str(tmp_path / "missing"))
    machine = probe(recorded)
    assert machine.host.cpu.model == "A Xeon"
    assert "sheets could not be read" in machine.unknown["devices[0].profile"]


def test_a_root_that_is_no_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        probe(tmp_path / "missing")


def test_an_empty_root_is_a_full_answer(tmp_path: Path) -> None:
    machine = probe(tmp_path)
    assert machine.devices[0].target == "cpu-other"
    assert machine.unknown["host.arch"]
    assert machine.to_dict()["schema_version"] == 1


def test_the_fingerprint_follows_the_hardware_and_nothing_else(recorded: Path) -> None:
    root = Root(recorded)
    report = read_host(root)
    same = fingerprint(root, report, [GPU])
    assert fingerprint(root, report, [replace(GPU, state="no_driver", name=None, pci_id=None, uuid=None)]) != ""
    with_id = replace(GPU, pci_id="10de:2330")
    assert fingerprint(root, report, [with_id]) == fingerprint(root, report, [replace(with_id, state="lost", name=None, memory_bytes=None)])
    assert fingerprint(root, report, [GPU, replace(GPU, bus_id="0000:02:00.0")]) != same
    usable = replace(report.host.memory, usable_bytes=1, available_bytes=1)
    assert fingerprint(root, replace(report, host=replace(report.host, memory=usable, container="docker")), [GPU]) == same
    (recorded / "etc").mkdir()
    (recorded / "etc/machine-id").write_text("0123456789abcdef\n")
    other = fingerprint(root, report, [GPU])
    assert other != same
    assert "0123456789abcdef" not in other


def test_reasons_move_to_the_place_of_their_device() -> None:
    paths = device_paths([replace(GPU, id="cpu0"), GPU], {"0000:01:00.0.memory_bytes": "why", "elsewhere": "because"})
    assert paths == {"devices[1].memory_bytes": "why", "elsewhere": "because"}


def test_findings_are_sorted_by_severity_and_said_once() -> None:
    found = [
        Finding(code=code, severity=severity, message="m")
        for code, severity in (("B", "info"), ("A", "info"), ("C", "error"), ("A", "info"))
    ]  # type: ignore[arg-type]
    assert [finding.code for finding in sort_findings(found)] == ["C", "A", "B"]


def test_explain_finds_a_device_by_any_of_its_names(recorded: Path) -> None:
    machine = replace(probe(recorded), devices=(probe(recorded).devices[0], GPU))
    for name in ("0000:01:00.0", "01:00.0", "gpu-1", "1", "devices[1]"):
        assert explain(machine, name) is machine.devices[1]
    with pytest.raises(UnknownName, match="cpu1"):
        explain(machine, "cpu1")


def machines_in(url: str) -> int:
    with Store.open(url) as store:
        return int(store.query("SELECT count(*) FROM machines")[1][0][0])


def test_the_machine_is_saved_once_and_again_when_it_changed(recorded: Path, sqlite_url: str) -> None:
    document = probe(recorded).to_dict()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    identity = str(machine_row(document, origin="local")["id"])
    assert not just_seen(path, identity)
    assert save_machine(document, sqlite_url)
    assert just_seen(path, identity)
    assert save_machine(document, sqlite_url)
    assert machines_in(sqlite_url) == 1
    changed = {**document, "host": {**document["host"], "kernel": "9.9"}}
    assert save_machine(changed, sqlite_url)
    assert machines_in(sqlite_url) == 2
    # What was seen last is another state now: the first one is stored again, as the latest.
    assert not just_seen(path, identity)
    assert save_machine(document, sqlite_url)
    with Store.open(sqlite_url) as store:
        latest = store.latest_machine()
    assert latest is not None
    assert latest["host"]["kernel"] == document["host"]["kernel"]
    assert machines_in(sqlite_url) == 2


def test_findings_of_the_moment_make_no_new_machine(recorded: Path, sqlite_url: str) -> None:
    document = probe(recorded).to_dict()
    busy = {"code": "LOAD_HIGH", "severity": "info", "message": "The load is 7.1.", "fix": None, "evidence": None}
    assert save_machine(document, sqlite_url)
    assert save_machine({**document, "findings": [*document["findings"], busy]}, sqlite_url)
    assert machines_in(sqlite_url) == 1


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0 and no more"])
def test_a_file_that_is_no_database_was_not_just_seen(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    assert not just_seen(path, "0")


@pytest.mark.parametrize("url", ["sqlite:////proc/none/x.db", "mysql://x/y", "nonsense"])
def test_a_database_that_cannot_be_written_costs_a_warning(recorded: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not save_machine(probe(recorded).to_dict(), url)
    assert "warning[NOT-SAVED]" in capsys.readouterr().err


def test_this_very_machine() -> None:
    machine = probe_machine(Root.live())
    assert machine.host.cpu.usable_cpus
    assert machine.devices[0].state == "usable"
