"""A probed machine as a piece of a page: verdict, host, devices, frameworks, findings, and the roofline of each measured device."""

from __future__ import annotations

from typing import Any

from advisor.report.markup import Markup, h, join, table
from advisor.report.svg_charts import roofline
from advisor.units import format_bytes

Document = dict[str, Any]


def machine_block(document: Document, rooflines: Document) -> Markup:
    """Return a probe's document as markup. A document of a stranger may lack anything: what is missing is left out."""
    host = _object(document.get("host"))
    parts: list[Any] = [_host(host), _devices(document)]
    for key, drawn in rooflines.items():
        picture = roofline(f"Roofline of {key}", drawn)
        if picture is not None:
            parts += [h("h2", f"Roofline of {key}"), h("figure", picture, class_="scroll", tabindex="0")]
    parts += [_frameworks(document), _findings(document)]
    return join(*parts)


def _object(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Document]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def memory_text(value: Any) -> str:
    """Write a number of bytes, or ``unknown``."""
    return format_bytes(value) if isinstance(value, int | float) else "unknown"


def _host(host: Document) -> Markup:
    cpu, memory = _object(host.get("cpu")), _object(host.get("memory"))
    rows = [
        ("system", " ".join(str(host[key]) for key in ("os", "kernel", "arch") if host.get(key))),
        ("runs in", ", ".join(str(host[key]) for key in ("virtualization", "container") if host.get(key) and host[key] != "none")),
        ("CPU", " ".join(str(part) for part in (cpu.get("model") or cpu.get("vendor"), cpu.get("microarchitecture")) if part)),
        ("CPUs usable", f"{cpu['usable_cpus']:g}" if isinstance(cpu.get("usable_cpus"), int | float) else None),
        ("memory", f"{memory_text(memory.get('usable_bytes'))} usable of {memory_text(memory.get('total_bytes'))}" if memory else None),
    ]
    return h("dl", *(h("div", h("dt", label), h("dd", text)) for label, text in rows if text), class_="facts")


def _devices(document: Document) -> Markup:
    rows = []
    for device in _objects(document.get("devices")):
        state = str(device.get("state"))
        why = f": {device['reason']}" if device.get("reason") else ""
        rows.append(
            [
                device.get("id"),
                device.get("name"),
                device.get("target"),
                memory_text(device.get("memory_bytes")),
                state + why,
                device.get("profile") or "–",
            ]
        )
    titles = ["device", "name", "target", "memory", "state", "sheet"]
    return join(h("h2", "Devices"), table(titles, rows, numeric=(3,), caption="Devices"))


def _frameworks(document: Document) -> Markup | None:
    installed = [item for item in _objects(document.get("frameworks")) if item.get("version")]
    if not installed:
        return None
    rows = [
        [f.get("name"), f.get("version"), f.get("state"), ", ".join(map(str, f.get("targets") or [])) or f.get("reason")] for f in installed
    ]
    return join(h("h2", "Frameworks"), table(["framework", "version", "state", "can use"], rows, caption="Frameworks"))


def _findings(document: Document) -> Markup:
    found = _objects(document.get("findings"))
    if not found:
        return join(h("h2", "Findings"), h("p", "Nothing to mend."))
    items = []
    for finding in found:
        severity = str(finding.get("severity"))
        kind = severity if severity in ("error", "warning", "info") else "info"
        fix = h("div", h("code", finding["fix"])) if finding.get("fix") else None
        items.append(h("li", h("span", kind, class_=f"badge {kind}"), " ", finding.get("message"), fix))
    return join(h("h2", "Findings"), h("ul", *items, class_="findings"))
