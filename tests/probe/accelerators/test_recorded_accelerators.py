"""Small recorded machines of our own making: every fact they state about devices must hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.probe.accelerators import find_devices
from advisor.probe.root import Root

MACHINES = sorted(Path(__file__).parents[2].joinpath("data", "machines").glob("*.yaml"))


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_recorded_machine(path: Path, machine: Callable[[dict[str, str]], Root]) -> None:
    record: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    report = find_devices(machine(record["files"]))

    def order(device: dict[str, Any]) -> tuple[str, str]:
        return str(device.get("uuid") or ""), str(device.get("bus_id") or "")

    found = sorted(({name: getattr(device, name) for name in device.__dataclass_fields__} for device in report.devices), key=order)
    expected = sorted(record["devices"], key=lambda facts: (str(facts.get("uuid") or ""), str(facts.get("bus_id") or "")))
    by_bus = {device["bus_id"]: device for device in found}
    by_uuid = {device["uuid"]: device for device in found}
    assert len(found) == len(expected)
    for facts in expected:
        device = by_uuid.get(facts["uuid"]) if facts.get("uuid") else by_bus[facts.get("bus_id")]
        assert device is not None
        assert {name: device[name] for name in facts} == facts
    assert all(device.reason and device.fix for device in report.devices if device.state not in ("usable", "unknown"))


def test_there_are_recorded_machines() -> None:
    assert len(MACHINES) >= 12
