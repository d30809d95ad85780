"""Devices: the sheets, and one of them with what was measured on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from advisor.report.svg_charts import history, roofline
from advisor.units import format_rate
from advisor.usecases import browse
from advisor.usecases.hardware import list_hardware
from advisor.web.render import Document, ServiceDep, svg_answer, twin_routes

router = APIRouter()

Profile = Annotated[str, Path(max_length=100, description="A sheet's id or alias, as in a100-sxm4-80gb.")]


def devices(
    vendor: Annotated[str | None, Query(max_length=60)] = None, target: Annotated[str | None, Query(max_length=60)] = None
) -> Document:
    """The sheets of devices and systems."""
    return list_hardware(vendor or None, target or None)


def device(service: ServiceDep, profile: Profile) -> Document:
    """One device or system: its sheet with sources, its roofline, what was measured best, and its history."""
    return service.memory.get(("device", profile), lambda: browse.device(service.store, profile))  # type: ignore[no-any-return]


def draw_roofline(d: Document) -> Any:
    """Return the picture of a device's document, or None."""
    return None if d["roofline"] is None else roofline(f"Roofline of {d['sheet']['name']}", d["roofline"])


def draw_history(d: Document) -> Any:
    """Return the best GEMM rate of each month by framework and dtype, or None where nothing dated was measured."""
    lines: dict[str, dict[float, tuple[float, str, float]]] = {}
    for row in d["history"]:
        if row["benchmark"] != "gemm" or row["metric"] != "flops_per_s" or row["month"] is None:
            continue
        at = datetime.strptime(row["month"], "%Y-%m").replace(tzinfo=UTC).timestamp()
        line = lines.setdefault(f"{row['backend']} {row['dtype']}", {})
        if at not in line or row["best"] > line[at][2]:
            line[at] = (at, row["month"], row["best"])
    series = {name: sorted(line.values()) for name, line in sorted(lines.items())[:6]}
    return history(f"Best GEMM by month, {d['sheet']['name']}", series, lambda v: format_rate(v, "flops_per_s"))


twin_routes(router, "/devices", devices, "devices.html")


@router.get("/devices/{profile}/roofline.svg", tags=["pictures"], response_class=Response)
def device_roofline(request: Request, service: ServiceDep, profile: Profile) -> Response:
    """A device's roofline, as a picture."""
    return svg_answer(request, draw_roofline(device(service, profile)), "roofline")


@router.get("/devices/{profile}/history.svg", tags=["pictures"], response_class=Response)
def device_history(request: Request, service: ServiceDep, profile: Profile) -> Response:
    """A device's best GEMM rate by month, as a picture."""
    return svg_answer(request, draw_history(device(service, profile)), "history")


twin_routes(router, "/devices/{profile}", device, "device.html", lambda d: {"roofline": draw_roofline(d), "history": draw_history(d)})
