"""The application: routes, guards and error handlers put together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from advisor.errors import AdvisorError
from advisor.usecases.serve import ServeOptions, Service
from advisor.web import accuracy, claims, compare, devices, documents, machines, measurements, overview, recommend, submissions
from advisor.web.errors import HttpError, document_of, headers_of, status_of
from advisor.web.metrics import Metrics
from advisor.web.metrics import router as metrics_router
from advisor.web.protect import LOOPBACK, Protection, RateLimit
from advisor.web.render import HERE, json_answer, page, wants_json

#: Threads that answer requests: as many as the pool of database connections gives at once.
THREADS = 12


def create_app(options: ServeOptions) -> FastAPI:
    """Return the application; it opens the database when it starts and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.service = await anyio.to_thread.run_sync(Service, options)
        try:
            yield
        finally:
            app.state.service.close()

    app = FastAPI(
        title="advisor",
        version="1",
        summary="A team's measurements of machine-learning hardware, and recommendations that rest on them.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    app.state.metrics = Metrics()
    app.state.submissions = RateLimit(options.submissions_per_minute)
    app.state.questions = RateLimit(options.questions_per_minute)
    app.state.failures = RateLimit(options.failures_per_minute)
    _handlers(app)
    for router in (
        overview.router,
        machines.router,
        devices.router,
        measurements.router,
        compare.router,
        recommend.router,
        accuracy.router,
        claims.router,
        submissions.router,
        documents.router,
        metrics_router,
    ):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.add_middleware(Protection, allowed=allowed_hosts(options))
    return app


def allowed_hosts(options: ServeOptions) -> tuple[str, ...]:
    """Return the names the server answers to; a server bound to all addresses that was given no names answers to any."""
    if options.host in ("0.0.0.0", "::", "") and not options.allowed_hosts:  # noqa: S104 - compared, not bound
        return ("*",)
    return (*LOOPBACK, options.host, *options.allowed_hosts)


def _description(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with the one way to authenticate."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        made.setdefault("components", {})["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = made
    return app.openapi_schema


def _handlers(app: FastAPI) -> None:
    @app.middleware("http")
    async def counted(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        start = time.perf_counter()
        response = await call(request)
        route = request.scope.get("route")
        app.state.metrics.add(request.method, getattr(route, "path", "none"), response.status_code, time.perf_counter() - start)
        return response

    @app.exception_handler(AdvisorError)
    def expected(request: Request, error: AdvisorError) -> Response:
        return failure(request, error)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return failure(request, HttpError(422, "BAD-PARAMETER", f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        code = {404: "NO-SUCH-PAGE", 405: "METHOD"}.get(error.status_code, "HTTP")
        return failure(request, HttpError(error.status_code, code, str(error.detail), headers=dict(error.headers or {})))

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> Response:
        # The server logs the traceback; the client learns only that it is not its fault.
        return failure(request, HttpError(500, "INTERNAL", "the server failed to answer this"))


def failure(request: Request, error: AdvisorError) -> Response:
    """Return an error as JSON, or as a page to a browser that asked for one."""
    status = status_of(error, in_path=bool(request.path_params))
    headers, document = headers_of(error), document_of(error)
    is_page = request.method in ("GET", "HEAD") and not request.url.path.endswith((".json", ".svg")) and not wants_json(request)
    if is_page and "text/html" in request.headers.get("accept", ""):
        return page(request, "error.html", status=status, headers=headers, d=document["error"], status_code=status)
    return json_answer(request, document, status=status, headers=headers)
