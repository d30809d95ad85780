"""A probed machine for people: one screen, the verdict first."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from advisor.units import format_bytes, format_rate

_WIDTH = 110
_MARKS = {"error": "error", "warning": "warn ", "info": "info "}
_COLOURS = {"error": "bold red", "warning": "yellow", "info": "dim"}
_MAX_INFO = 6


def render_machine(document: dict[str, Any]) -> None:
    """Print the document of ``advisor probe``."""
    from advisor.report.console import console

    out = console()
    out.print(verdict(document), style="bold", markup=False)
    out.print()
    stated = {finding["fix"] for finding in document["findings"] if finding["fix"]}
    frameworks = list(framework_lines(document["frameworks"]))
    for line in (*host_lines(document), "", *device_lines(document["devices"], stated), *([""] if frameworks else []), *frameworks):
        out.print(line, markup=False)
    shown, hidden = split_findings(document["findings"])
    if shown:
        out.print()
    for finding in shown:
        out.print(_MARKS[finding["severity"]], style=_COLOURS[finding["severity"]], end=" ", markup=False)
        for index, line in enumerate(finding_lines(finding)):
            out.print(line if index == 0 else f"      {line}", markup=False)
    if hidden:
        out.print(f"      and {hidden} more of severity info (--json shows all)", style="dim", markup=False)


def render_device(document: dict[str, Any]) -> None:
    """Print the document of ``advisor probe --explain``."""
    from advisor.report.console import console

    out = console()
    for line in explain_lines(document["device"], document["unknown"]):
        out.print(line, markup=False)


def verdict(document: dict[str, Any]) -> str:
    """Return one sentence: what can be used, and whether anything is wrong."""
    accelerators = [device for device in document["devices"] if not device["target"].startswith("cpu")]
    usable = [device for device in accelerators if device["state"] == "usable"]
    errors = sum(finding["severity"] == "error" for finding in document["findings"])
    warnings = sum(finding["severity"] == "warning" for finding in document["findings"])
    if usable:
        what = f"{', '.join(f'{count}x {name}' if count > 1 else name for name, count in _counted(usable))} usable"
        if len(usable) < len(accelerators):
            what += f", {len(accelerators) - len(usable)} not"
    elif accelerators:
        what = f"{_plural(len(accelerators), 'accelerator')} found, none usable: {accelerators[0]['reason'] or accelerators[0]['state']}"
    else:
        cpus = document["host"]["cpu"]["usable_cpus"]
        what = f"CPU only, {_number(cpus)} CPUs usable" if cpus is not None else "CPU only"
    problems = [_plural(count, word) for count, word in ((errors, "error"), (warnings, "warning")) if count]
    return f"{what}; {' and '.join(problems) if problems else 'nothing to mend'}."


def host_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about the host."""
    host = document["host"]
    cpu, memory = host["cpu"], host["memory"]
    system = " ".join(part for part in (host["os"], host["kernel"], host["arch"]) if part) or "unknown system"
    where = [name for name in (host["virtualization"], host["container"]) if name and name != "none"]
    yield f"Host     {system}" + (f" ({', '.join(where)})" if where else "")
    name = cpu["model"] or cpu["vendor"] or "unknown processor"
    # Where no product is known the kinds of cores are the name, and they are not said again.
    mixed = len(cpu["clusters"]) > 1 and " + " in name
    march = f" [{cpu['microarchitecture']}]" if cpu["microarchitecture"] and cpu["microarchitecture"] != name and not mixed else ""
    yield f"CPU      {name}{march}"
    shape = [
        _plural(cpu["sockets"], "socket") if cpu["sockets"] else None,
        _plural(cpu["physical_cores"], "core") if cpu["physical_cores"] else None,
        _plural(cpu["logical_cpus"], "logical CPU") if cpu["logical_cpus"] else None,
        f"{_number(cpu['usable_cpus'])} usable ({cpu['usable_cpus_source']})" if cpu["usable_cpus"] is not None else "usable: unknown",
        _plural(len(cpu["numa_nodes"]), "NUMA node") if len(cpu["numa_nodes"]) > 1 else None,
    ]
    yield f"         {', '.join(part for part in shape if part)}"
    notable = [flag for flag in _NOTABLE_FLAGS if flag in cpu["isa"]]
    if notable:
        yield f"         {' '.join(notable)}"
    if len(cpu["clusters"]) > 1 and not mixed:
        yield "         " + ", ".join(f"{kind['count']}x {kind['name'] or kind['part'] or 'unnamed'}" for kind in cpu["clusters"])
    total = format_bytes(memory["total_bytes"]) if memory["total_bytes"] is not None else "unknown"
    if memory["usable_bytes"] is not None and memory["usable_bytes"] != memory["total_bytes"]:
        yield f"Memory   {format_bytes(memory['usable_bytes'])} usable of {total} ({memory['limit_source']})"
    else:
        yield f"Memory   {total}"


#: Features that decide how fast matrix kernels run, in the kernel's names.
_NOTABLE_FLAGS = (
    "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "avx_vnni_int8", "amx_tile", "amx_bf16",
    "amx_int8", "amx_fp16", "asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2", "sme", "sme2", "vsx", "lasx", "zvfh",
)  # fmt: skip


def device_lines(devices: list[dict[str, Any]], stated: Collection[str] = ()) -> Iterator[str]:
    """Yield a table of the devices, equal ones in one line, then why one cannot be used; ``stated`` are fixes that findings name anyway."""
    rows: list[tuple[str, ...]] = [("Device", "Memory", "Target", "State", "Sheet", "Ids")]
    for group in _grouped(devices):
        first = group[0]
        count = f"{len(group)}x " if len(group) > 1 else ""
        memory = format_bytes(first["memory_bytes"]) if first["memory_bytes"] is not None else "unknown"
        if first["memory_kind"] == "unified":
            memory += " unified"
        name = first["name"] or first["pci_id"] or ("unknown processor" if first["id"] == "cpu0" else "unknown")
        rows.append((f"{count}{name}", memory, first["target"], first["state"], first["profile"] or "-", _ids(group)))
    yield from _table(rows)
    for group in _grouped(devices):
        if group[0]["reason"]:
            fix = group[0]["fix"]
            yield from _wrapped(f"  {group[0]['id']}: {group[0]['reason']}" + (f"; fix: {fix}" if fix and fix not in stated else ""))


def framework_lines(frameworks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield one line for each installed framework, and one for all the others."""
    installed = [item for item in frameworks if item["version"] is not None]
    absent = [item["name"] for item in frameworks if item["version"] is None]
    for item in installed:
        build = f" ({item['build']})" if item["build"] else ""
        what = ", ".join(item["targets"]) if item["state"] == "usable" else f"{item['state']}: {item['reason']}"
        yield _cut(f"{item['name']:<12} {item['version']}{build}: {what}")
    if absent:
        yield from _wrapped(f"not installed: {', '.join(absent)}")
    if any(item["reason"] == "not queried yet" for item in installed):
        yield "`advisor probe --frameworks` asks them what they can use"


def split_findings(findings: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the findings that fit the screen, most severe first, and how many of severity info are left out."""
    grave = [finding for finding in findings if finding["severity"] != "info"]
    info = [finding for finding in findings if finding["severity"] == "info"]
    return grave + info[:_MAX_INFO], max(0, len(info) - _MAX_INFO)


def finding_lines(finding: dict[str, Any]) -> list[str]:
    """Return a finding's message with its code, and its fix on the lines below."""
    lines = textwrap.wrap(f"{finding['message']} [{finding['code']}]", _WIDTH - 6, break_on_hyphens=False)
    if finding["fix"]:
        lines += textwrap.wrap(f"fix: {finding['fix']}", _WIDTH - 6, break_on_hyphens=False)
    return lines


def explain_lines(device: dict[str, Any], unknown: dict[str, str]) -> Iterator[str]:
    """Yield all that is known of one device, then why the rest is not."""
    yield f"{device['name'] or device['id']}: {device['state']}"
    if device["reason"]:
        yield from _wrapped(f"  because {device['reason']}")
    if device["fix"]:
        yield from _wrapped(f"  fix: {device['fix']}")
    answers = {True: "yes", False: "no", None: "not applicable or not tried"}
    for check, answer in device["checks"].items():
        yield f"  {check:<14} {answers[answer]}"
    for key in (
        "id",
        "target",
        "vendor",
        "arch",
        "memory_bytes",
        "memory_kind",
        "bus_id",
        "pci_id",
        "uuid",
        "compute_units",
        "package",
        "profile",
    ):
        value = device[key]
        if value is not None:
            yield f"  {key:<14} {format_bytes(value) if key == 'memory_bytes' else value}"
    for link in device["links"]:
        speed = f" {format_rate(link['bandwidth_bytes_per_s'], 'bytes_per_s')} a direction" if link["bandwidth_bytes_per_s"] else ""
        yield f"  link           {link['kind']} to {link['to']}{speed}"
    for key, value in device["details"].items():
        yield from _wrapped(f"  {key:<14} {value}")
    for path, why in unknown.items():
        yield from _wrapped(f"  {path.partition('.')[2]}: {why if why.startswith('unknown') else f'unknown, {why}'}")


def _grouped(devices: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for device in devices:
        key = tuple(device[name] for name in ("target", "name", "arch", "memory_bytes", "pci_id", "state", "reason", "profile"))
        groups.setdefault(key, []).append(device)
    return list(groups.values())


def _counted(devices: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(group[0]["name"] or group[0]["target"], len(group)) for group in _grouped(devices)]


def _ids(group: list[dict[str, Any]]) -> str:
    names = [device["bus_id"] or device["id"] for device in group]
    return ", ".join(names) if len(names) <= 2 else f"{names[0]} … {names[-1]}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False) or [text]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{value:.2f}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
