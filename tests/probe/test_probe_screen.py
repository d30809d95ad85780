"""What people see: the verdict first, equal devices in one line, each fix once, no more than a screen."""

from __future__ import annotations

from typing import Any

from advisor.probe.assemble import probe_machine
from advisor.probe.root import Root
from advisor.report.probe import device_lines, finding_lines, host_lines, split_findings, verdict


def gpus(count: int, **files: str) -> dict[str, str]:
    """Return the PCI tree of equal GPUs."""
    tree: dict[str, str] = {}
    for number in range(count):
        folder = f"/sys/bus/pci/devices/0000:{number + 1:02x}:00.0"
        tree |= {f"{folder}/vendor": "0x10de\n", f"{folder}/device": "0x2330\n", f"{folder}/class": "0x030200\n"}
        tree |= {f"{folder}/{name}": text for name, text in files.items()}
    return tree


def document(tmp_path: Any, files: dict[str, str]) -> dict[str, Any]:
    """Return the probe's document of a machine."""
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return probe_machine(Root(tmp_path)).to_dict()


def screen(found: dict[str, Any]) -> list[str]:
    """Return the lines that are printed, without colours."""
    stated = {finding["fix"] for finding in found["findings"]}
    shown, _ = split_findings(found["findings"])
    return [
        verdict(found),
        *host_lines(found),
        *device_lines(found["devices"], stated),
        *(line for finding in shown for line in finding_lines(finding)),
    ]


def test_eight_equal_gpus_are_one_line(tmp_path: Any) -> None:
    lines = screen(document(tmp_path, gpus(8, uevent="DRIVER=nvidia\n")))
    assert lines[0].startswith("8x ")
    assert " usable" in lines[0]
    rows = [line for line in lines if " cuda " in line]
    assert len(rows) == 1
    assert rows[0].startswith("8x ")
    assert "0000:01:00.0 … 0000:08:00.0" in rows[0]
    assert len(lines) < 30


def test_a_broken_machine_names_its_cause_first_and_each_fix_once(tmp_path: Any) -> None:
    lines = screen(document(tmp_path, gpus(8)))
    assert "none usable" in lines[0]
    text = " ".join(" ".join(lines).split())
    assert text.count("sudo apt install nvidia-open") == 1
    assert len(lines) < 30


def test_one_gpu_is_not_counted(tmp_path: Any) -> None:
    assert not screen(document(tmp_path, gpus(1, uevent="DRIVER=nvidia\n")))[0].startswith("1x")
