"""The description of the interface for people, and the style sheets; nothing comes from elsewhere."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from advisor.report.svg import STATIC, chart_style
from advisor.web.render import HERE, answer, page

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def docs(request: Request) -> Response:
    """Show the interface: every address, its parameters and answers."""
    description = request.app.openapi()
    groups: dict[str, list[dict[str, object]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append({"path": path, "method": method.upper(), **operation})
    return page(request, "docs.html", d={"groups": groups, "info": description["info"]})


@router.get("/style.css")
def style(request: Request) -> Response:
    """Return the one style sheet: that of reports and charts, and that of the pages."""
    parts = [(STATIC / "page.css").read_text(encoding="utf-8"), chart_style(), (HERE / "static" / "site.css").read_text(encoding="utf-8")]
    return answer(request, "\n".join(parts), "text/css; charset=utf-8", headers={"cache-control": "max-age=300"})
