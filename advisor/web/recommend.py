"""Ask for a recommendation in a form; the answer's address can be shared."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from advisor.report.html_answer import answer_block, parts_chart
from advisor.units import format_bytes, format_seconds
from advisor.usecases.ask import FIELDS, choices
from advisor.web.errors import HttpError
from advisor.web.render import Document, ServiceDep, svg_answer, twin_routes

router = APIRouter()

Text = Annotated[str | None, Query(max_length=200)]


def question(
    model: Text = None,
    task: Text = None,
    hardware: Text = None,
    seq: Text = None,
    global_batch: Text = None,
    input_len: Text = None,
    output_len: Text = None,
    concurrency: Text = None,
    request_rate: Text = None,
    objective: Text = None,
    limit: Annotated[str | None, Query(max_length=200, description="KEY=VALUE, several joined by commas.")] = None,
    fix: Annotated[str | None, Query(max_length=200, description="KEY=VALUE, several joined by commas.")] = None,
    price: Annotated[str | None, Query(max_length=200, description="PROFILE=USD_PER_HOUR, several joined by commas.")] = None,
) -> dict[str, str]:
    """Return the question of an address, without what was left empty."""
    values = (
        model, task, hardware, seq, global_batch, input_len, output_len, concurrency, request_rate, objective, limit, fix, price,
    )  # fmt: skip
    return {name: value for name, value in zip(FIELDS, values, strict=True) if value is not None and value.strip()}


QuestionDep = Annotated[dict[str, str], Depends(question)]


def recommendation(request: Request, service: ServiceDep, asked: QuestionDep) -> Document:
    """The best plan for a model on some hardware, as `advisor recommend --json`; without a model, an empty question."""
    if not asked:
        return {"schema_version": 1, "answer": None, "question": {}}
    wait = request.app.state.questions.wait(request.client.host if request.client else "")
    if wait:
        raise HttpError(429, "TOO-MANY", "too many questions from this address", headers={"retry-after": str(int(wait) + 1)})
    return {"schema_version": 1, "question": asked, "answer": service.answers.answer(asked)}


@router.get("/recommend/{part}.svg", tags=["pictures"], response_class=Response)
def recommendation_picture(request: Request, service: ServiceDep, asked: QuestionDep, part: str) -> Response:
    """Where the time (`time.svg`) or the memory (`memory.svg`) of an answer goes."""
    if part not in ("time", "memory"):
        raise HttpError(404, "NO-PICTURE", "there are time.svg and memory.svg")
    answer = recommendation(request, service, asked)["answer"]
    best = answer["recommendation"] if answer else None
    if best is None:
        return svg_answer(request, None, part)
    key, write = ("time_parts_s", format_seconds) if part == "time" else ("memory_parts_bytes", format_bytes)
    return svg_answer(request, parts_chart(f"Where the {part} goes", best["estimate"][key], write), part)


def _extra(d: Document) -> Document:
    return {"block": answer_block(d["answer"]) if d["answer"] else None, "choices": choices()}


twin_routes(router, "/recommend", recommendation, "recommend.html", _extra)
