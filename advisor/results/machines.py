"""A probe's document as rows: one machine, its devices. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.errors import UsageError
from advisor.results.hash import clean, content_hash, derived_id
from advisor.results.rows import now

#: Facts of the moment, not of the machine: two probes that differ only in these have seen the same machine.
MOMENTARY = {
    "available_bytes",
    "free_bytes",
    "used_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
    "temperature_c",
    "power_w",
    "utilization_pct",
    "clock_mhz",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "load_average",
    "uptime_s",
    "pstate",
    "processes",
    "throttle_reasons",
}


def machine_row(document: Mapping[str, Any], *, origin: str) -> dict[str, Any]:
    """Return the row of a machine document; raises UsageError where it has no fingerprint."""
    fingerprint = document.get("fingerprint")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise UsageError("a machine's document has no fingerprint")
    document = clean(document)
    digest = content_hash(_lasting(document))
    moment = now()
    return {
        "id": derived_id("machine", digest),
        "fingerprint": fingerprint,
        "content_hash": digest,
        "document": document,
        "origin": origin,
        "first_seen_at": moment,
        "last_seen_at": moment,
    }


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in MOMENTARY}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def device_rows(machine_id: str, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the devices of a machine document."""
    return [
        {
            "id": derived_id("device", machine_id, str(device["id"])),
            "machine_id": machine_id,
            "key": str(device["id"]),
            "name": device.get("name"),
            "target": device.get("target"),
            "vendor": device.get("vendor"),
            "arch": device.get("arch"),
            "profile": device.get("profile"),
            "hw_class": None,
            "memory_bytes": device.get("memory_bytes"),
            "state": device.get("state"),
        }
        for device in clean(document).get("devices") or ()
    ]
