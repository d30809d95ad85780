"""Templates, and the pair of routes behind every page: the page itself, and its JSON twin."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from advisor.report.recommend import plan_text
from advisor.report.svg import standalone
from advisor.units import GIB, format_bytes, format_count, format_rate, format_seconds
from advisor.usecases.serve import Service, claims_known

HERE = Path(__file__).resolve().parent

Document = dict[str, Any]


def service_of(request: Request) -> Service:
    """Return the service that a request is served by."""
    found: Service = request.app.state.service
    return found


ServiceDep = Annotated[Service, Depends(service_of)]


@cache
def environment() -> Environment:
    """Return the templates; everything that is put in is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True
    )
    made.filters |= {
        "bytes": lambda v: "unknown" if v is None else format_bytes(v),
        "seconds": lambda v: "unknown" if v is None else format_seconds(v),
        "count": lambda v: "unknown" if v is None else format_count(v),
        "value": value_text,
        "day": lambda v: v[:10] if v else "–",
        "minute": lambda v: v[:16].replace("T", " ") + " UTC" if v else "–",
        "short": lambda v: str(v)[:8],
        "plan": plan_text,
        "percent": lambda v: "–" if v is None else f"{v:.1f} %",
        "signed": lambda v: "–" if v is None else f"{v:+z.1f} %",
        "number": lambda v: f"{v:,}",
        "params": params_text,
        "code": code_text,
    }
    made.globals |= {"claims_known": claims_known, "GIB": GIB, "query": query, "year": lambda: datetime.now(UTC).year}
    return made


def value_text(value: float | None, metric: str, unit: str = "") -> str:
    """Write a measured value as people read it."""
    if value is None:
        return "–"
    if metric == "seconds":
        return format_seconds(value)
    return format_rate(value, metric if metric in ("flops_per_s", "bytes_per_s") else unit or metric)


def params_text(params: Document, most: int = 120) -> str:
    """Write the parameters of a measurement in one line; of a published row, those that are not columns already."""
    hidden = {"group", "kind", "hardware", "hw_class", "dtype", "time_ms", "tflops", "gb_per_s", "status", "framework", "precision"}
    text = ", ".join(f"{key} {value}" for key, value in params.items() if key not in hidden)
    return text if len(text) <= most else text[: most - 1] + "…"


def code_text(text: str) -> Markup:
    """Return text in which what stands between backticks is code; everything is escaped."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(parts))


def query(values: Document, **changes: Any) -> str:
    """Return a query string of the values that are not empty."""
    merged = {**values, **changes}
    return urlencode({key: value for key, value in merged.items() if value not in (None, "", False)})


def wants_json(request: Request) -> bool:
    """Tell whether the client prefers JSON over a page."""
    accept = request.headers.get("accept", "")
    return "application/json" in accept and "text/html" not in accept


def jsonable(value: Any) -> Any:
    """Return ``value`` with numbers that JSON does not know as null, and tuples as lists."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def answer(request: Request, body: str | bytes, media_type: str, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with an ETag, or 304 where the client has this very content."""
    data = body.encode("utf-8") if isinstance(body, str) else body
    etag = f'"{hashlib.sha256(data).hexdigest()[:24]}"'
    sent = {"etag": etag, "vary": "accept", **(headers or {})}
    if status == 200 and etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=sent)
    return Response(data, status_code=status, media_type=media_type, headers=sent)


def json_answer(request: Request, document: Document, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a document as JSON."""
    text = json.dumps(jsonable(document), ensure_ascii=False, separators=(",", ":"))
    return answer(request, text, "application/json", status=status, headers=headers)


def page(request: Request, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **names: Any) -> Response:
    """Return a page made of ``template``."""
    path = request.url.path
    twin = ("/index" if path == "/" else path) + ".json" + (f"?{request.url.query}" if request.url.query else "")
    text = environment().get_template(template).render(path=path, twin=twin, asked=dict(request.query_params), **names)
    return answer(request, text, "text/html; charset=utf-8", status=status, headers=headers)


def svg_answer(request: Request, chart: Any, name: str) -> Response:
    """Return a picture as a file, or 404 where there is nothing to draw."""
    from advisor.web.errors import HttpError

    if chart is None:
        raise HttpError(404, "NO-PICTURE", "there is nothing to draw", "measure first: advisor bench")
    return answer(request, standalone(chart), "image/svg+xml", headers={"content-disposition": f'inline; filename="{name}.svg"'})


def twin_routes(
    router: APIRouter,
    path: str,
    build: Callable[..., Document],
    template: str,
    extra: Callable[[Document], Document] | None = None,
) -> None:
    """Add a page at ``path`` and its JSON at ``path.json``; ``build`` makes the document, ``extra`` what only the page needs (pictures).

    A client that accepts JSON and not HTML gets JSON at the page's address too. The twin is the one that the API's description shows.
    """
    name = build.__name__.replace("_", " ")
    document_of = Depends(build)

    def twin(request: Request, document: Document = document_of) -> Response:
        return _status(request, document, None)

    def shown(request: Request, document: Document = document_of) -> Response:
        return _status(request, document, None if wants_json(request) else (template, extra))

    twin.__doc__ = build.__doc__
    json_path = "/index.json" if path == "/" else path + ".json"
    router.add_api_route(json_path, twin, methods=["GET"], name=f"{name} (JSON)", response_class=Response, tags=["read"])
    router.add_api_route(path, shown, methods=["GET", "HEAD"], name=name, include_in_schema=False)


def _status(request: Request, document: Document, how: tuple[str, Callable[[Document], Document] | None] | None) -> Response:
    working = document.get("state") == "working"
    status, headers = (202, {"retry-after": "3"}) if working else (200, None)
    if how is None:
        return json_answer(request, document, status=status, headers=headers)
    template, extra = how
    return page(request, template, status=status, headers=headers, d=document, **(extra(document) if extra else {}))
