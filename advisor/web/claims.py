"""Claims that articles make, with the newest verdict of this machine."""

from __future__ import annotations

from fastapi import APIRouter

from advisor.usecases.serve import claims_known
from advisor.web.errors import HttpError
from advisor.web.render import Document, ServiceDep, twin_routes

router = APIRouter()


def claims(service: ServiceDep) -> Document:
    """Claims and their verdicts on the machine that serves this."""
    if not claims_known():
        raise HttpError(404, "NO-CLAIMS", "this install has no claims")
    from advisor.usecases.claims import list_claims

    return list_claims(database_url=service.options.database_url)


twin_routes(router, "/claims", claims, "claims.html")
