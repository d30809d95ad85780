"""The sheets of devices and systems: which there are, what one says, and the schema they are written in."""

from __future__ import annotations

from typing import Any

from advisor.errors import UnknownName

SCHEMA_VERSION = 1


def list_hardware(vendor: str | None = None, target: str | None = None) -> dict[str, Any]:
    """Return every device and system sheet in short, of one vendor or target if given; UnknownName for one nobody makes."""
    from advisor.hardware.load import all_profiles, all_systems

    devices = list(all_profiles().values())
    for kind, wanted in (("vendor", vendor), ("target", target)):
        if wanted is not None:
            known = {str(getattr(sheet, kind)) for sheet in devices}
            if wanted.lower() not in known:
                raise UnknownName(kind, wanted, known, "advisor hardware list")
            devices = [sheet for sheet in devices if getattr(sheet, kind) == wanted.lower()]
    ids = {sheet.id for sheet in devices}
    fields = ("id", "name", "vendor", "target", "arch", "year", "memory_gib", "memory_gb_per_s", "dense_tflops", "tdp_w", "default_system")
    return {
        "schema_version": SCHEMA_VERSION,
        "devices": [{field: getattr(sheet, field) for field in fields} for sheet in sorted(devices, key=lambda s: (s.vendor, s.id))],
        "systems": [
            {
                "id": item.id,
                "name": item.name,
                "device": item.device,
                "devices_per_node": item.devices_per_node,
                "intra_node": item.intra_node,
                "network": None if item.network is None else _network(item.network),
            }
            for item in all_systems().values()
            if item.device in ids
        ],
    }


def show_hardware(name: str) -> dict[str, Any]:
    """Return one sheet whole, of a device or a system, with what its source tags stand for; UnknownName with near ones."""
    import msgspec

    from advisor.hardware.load import catalog, find_profile, find_system

    sheet = find_profile(name) or find_system(name)
    known = catalog()
    if sheet is None:
        raise UnknownName("hardware", name, {*known.device_names, *known.system_names}, "advisor hardware list")
    document: dict[str, Any] = msgspec.to_builtins(sheet)
    tags = {tag for tags in sheet.sources.values() for tag in tags}
    for part in ("network", "torus"):
        tags.update((document.get(part) or {}).get("sources", ()))
    is_device = sheet.id in known.devices and known.devices[sheet.id] is sheet
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "device" if is_device else "system",
        "sheet": document,
        "systems": [item.id for item in known.systems.values() if item.device == sheet.id] if is_device else [],
        "sources": {tag: msgspec.to_builtins(known.sources[tag]) for tag in sorted(tags) if tag in known.sources},
    }


def sheet_schema() -> dict[str, Any]:
    """Return the JSON Schema of device sheets, system sheets and ``sources.yaml``, for editors and for sheets of one's own."""
    import msgspec

    from advisor.hardware.records import HardwareProfile, Source, System

    (device, system, source), components = msgspec.json.schema_components((HardwareProfile, System, Source), ref_template="#/$defs/{name}")
    return {
        "schema_version": SCHEMA_VERSION,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "device": device,
        "system": system,
        "source": source,
        "$defs": components,
    }


def _network(network: Any) -> str:
    return f"{network.ports} x {network.gbit_per_s_per_port:g} Gbit/s {network.kind}"
