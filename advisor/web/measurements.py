"""Measurements: filtered, page by page, and one of them whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from advisor.results.filters import Filters
from advisor.usecases import explore
from advisor.usecases.results import make_filters
from advisor.web.render import Document, ServiceDep, twin_routes

router = APIRouter()

Text = Annotated[str | None, Query(max_length=200)]


def filters(
    benchmark: Text = None,
    backend: Text = None,
    device: Text = None,
    dtype: Text = None,
    machine: Text = None,
    model: Text = None,
    metric: Text = None,
    origin: Text = None,
    status: Text = None,
    run: Text = None,
    since: Annotated[str | None, Query(max_length=40, description="A date, or a span before now such as 12h, 7d, 4w.")] = None,
) -> Filters:
    """Return the filters of an address; an empty one is none."""
    chosen = {
        "benchmark": benchmark,
        "backend": backend,
        "device": device,
        "dtype": dtype,
        "machine": machine,
        "model": model,
        "metric": metric,
        "origin": origin,
        "status": status,
        "run": run,
        "since": since,
    }
    return make_filters({name: text.strip() or None if text is not None else None for name, text in chosen.items()})


FiltersDep = Annotated[Filters, Depends(filters)]


def measurements(
    service: ServiceDep,
    wanted: FiltersDep,
    limit: Annotated[int, Query(ge=1, le=explore.PAGE_MOST)] = 50,
    cursor: Annotated[str | None, Query(max_length=300)] = None,
) -> Document:
    """Measurements, newest first; `next_cursor` leads to the next page."""
    return explore.measurements(service.store, wanted, limit=limit, cursor=cursor or None)


def measurement(service: ServiceDep, measurement_id: Annotated[str, Path(max_length=36)]) -> Document:
    """One measurement with its samples, conditions and provenance."""
    return explore.measurement(service.store, measurement_id)


twin_routes(router, "/measurements", measurements, "measurements.html")
twin_routes(router, "/measurements/{measurement_id}", measurement, "measurement.html")
