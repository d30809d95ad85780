"""How good the predictions are: predicted against measured for the published rows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from advisor.report.svg_charts import scatter
from advisor.web.errors import HttpError
from advisor.web.render import Document, ServiceDep, svg_answer, twin_routes

router = APIRouter()


def accuracy(service: ServiceDep) -> Document:
    """Scores of the cost model on the published rows; `state` is `working` while they are worked out for the first time."""
    return service.accuracy.get()


def draw(kind: str, document: Document) -> Any:
    """Return the picture of one kind of rows, or None."""
    return scatter(f"Predicted against measured time: {kind}", document["points"])


@router.get("/accuracy/{kind}.svg", tags=["pictures"], response_class=Response)
def accuracy_picture(request: Request, service: ServiceDep, kind: str) -> Response:
    """Predicted against measured, of training, inference, classic or microbench rows."""
    document = service.accuracy.get()
    if document["state"] == "working":
        raise HttpError(409, "WORKING", "the scores are still being worked out", "ask again in a minute", {"retry-after": "10"})
    if kind not in document["kinds"]:
        raise HttpError(404, "NO-PICTURE", f"no rows of kind {kind[:40]!r}", f"known: {', '.join(document['kinds'])}")
    return svg_answer(request, draw(kind, document["kinds"][kind]), f"accuracy-{kind}")


twin_routes(router, "/accuracy", accuracy, "accuracy.html", lambda d: {"pictures": {k: draw(k, v) for k, v in d["kinds"].items()}})
