"""Machines: the list, and one of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from advisor.report.html_machine import machine_block
from advisor.report.svg_charts import roofline
from advisor.usecases import browse
from advisor.web.errors import HttpError
from advisor.web.render import Document, ServiceDep, svg_answer, twin_routes

router = APIRouter()

MachineId = Annotated[str, Path(max_length=100, description="A machine's fingerprint or id.")]


def machines(
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Document:
    """Machines that were probed, the one seen last first."""
    return browse.machines(service.store, limit=limit, offset=offset)


def machine(service: ServiceDep, machine_id: MachineId) -> Document:
    """One machine: what is in it, what was measured on it, its rooflines and runs."""
    return browse.machine(service.store, machine_id)


twin_routes(router, "/machines", machines, "machines.html")


@router.get("/machines/{machine_id}/roofline.svg", tags=["pictures"], response_class=Response)
def machine_roofline(
    request: Request, service: ServiceDep, machine_id: MachineId, device: Annotated[str, Query(max_length=100)]
) -> Response:
    """The roofline of one device of a machine, as a picture."""
    drawn = browse.machine(service.store, machine_id)["rooflines"].get(device)
    if drawn is None:
        raise HttpError(404, "NO-PICTURE", "nothing was measured on that device of the machine", "advisor bench")
    return svg_answer(request, roofline(f"Roofline of {device}", drawn), "roofline")


twin_routes(router, "/machines/{machine_id}", machine, "machine.html", lambda d: {"block": machine_block(d["document"], d["rooflines"])})
