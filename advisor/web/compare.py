"""Compare devices, frameworks, versions: best, median and spread of one benchmark."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from advisor.report.svg_charts import bars
from advisor.usecases import explore
from advisor.web.measurements import FiltersDep
from advisor.web.render import Document, ServiceDep, svg_answer, twin_routes, value_text

router = APIRouter()

By = Annotated[str, Query(max_length=40, description="class, device, backend, version, dtype, machine, model or origin.")]
#: Bars that a picture shows.
MOST_BARS = 40


def compare(service: ServiceDep, wanted: FiltersDep, by: By = "class") -> Document:
    """Best, median and spread of one benchmark (default: gemm), by device, framework, version …"""
    filters = replace(wanted, limit=200)
    return service.memory.get(("compare", filters, by), lambda: explore.compare(service.store, filters, by))  # type: ignore[no-any-return]


def draw(d: Document) -> list[tuple[str, Any]]:
    """Return one picture a metric: the best as a bar, from the 10th to the 90th percentile as a line."""
    pictures = []
    for metric in dict.fromkeys((row["metric"], row["unit"]) for row in d["rows"]):
        rows = [row for row in d["rows"] if (row["metric"], row["unit"]) == metric][:MOST_BARS]
        shown = [{"name": row[d["by"]] or "unknown", "value": row["best"], "low": row["p10"], "high": row["p90"]} for row in rows]
        title = f"Best {d['benchmark']} by {d['by']}, {metric[1] or metric[0]}"
        picture = bars(title, shown, lambda value, metric=metric: value_text(value, *metric))  # type: ignore[misc]
        if picture is not None:
            pictures.append((title, picture))
    return pictures


@router.get("/compare.svg", tags=["pictures"], response_class=Response)
def compare_picture(request: Request, service: ServiceDep, wanted: FiltersDep, by: By = "class") -> Response:
    """The comparison's first picture."""
    pictures = draw(compare(service, wanted, by))
    return svg_answer(request, pictures[0][1] if pictures else None, "compare")


twin_routes(router, "/compare", compare, "compare.html", lambda d: {"pictures": draw(d)})
