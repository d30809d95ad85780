"""The first page, and whether the service is well."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from advisor.usecases import browse
from advisor.web.render import Document, ServiceDep, json_answer, twin_routes

router = APIRouter()


def overview(service: ServiceDep) -> Document:
    """What the database holds, and its newest runs."""
    return service.memory.get("home", lambda: browse.home(service.store))  # type: ignore[no-any-return]


twin_routes(router, "/", overview, "overview.html")


@router.get("/healthz", tags=["service"], response_class=Response)
def healthz(request: Request, service: ServiceDep) -> Response:
    """Whether the service and its database answer."""
    return json_answer(request, service.health())
