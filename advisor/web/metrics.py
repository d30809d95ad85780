"""Counters for Prometheus, in its text format (version 0.0.4)."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from fastapi import APIRouter, Request, Response

from advisor.usecases import browse
from advisor.usecases.serve import Service
from advisor.web.render import ServiceDep

#: How long counts of the database are shown before they are taken again.
FRESH_S = 15.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Requests by method, route and status, with the seconds they took. Routes are patterns, so their number is bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[tuple[str, str, int], float] = defaultdict(float)
        self._stored: tuple[float, dict[str, int]] = (float("-inf"), {})

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (method if method in _METHODS else "other", route, status)
        with self._lock:
            self._count[key] += 1
            self._seconds[key] += seconds

    def stored(self, service: Service) -> dict[str, int]:
        """Return how much the database holds, at most a few seconds old."""
        moment = time.monotonic()
        if moment - self._stored[0] > FRESH_S:
            home = browse.home(service.store)
            self._stored = (moment, {**home["by_origin"], "_machines": home["machines"]})
        return self._stored[1]

    def text(self, service: Service) -> str:
        """Return all of it in Prometheus' text format."""
        lines = [
            "# HELP advisor_http_requests_total Requests answered.",
            "# TYPE advisor_http_requests_total counter",
        ]
        with self._lock:
            counted, took = sorted(self._count.items()), dict(self._seconds)
        lines += [f"advisor_http_requests_total{_labels(key)} {count}" for key, count in counted]
        lines += [
            "# HELP advisor_http_request_seconds Time to answer.",
            "# TYPE advisor_http_request_seconds summary",
        ]
        for key, count in counted:
            lines += [
                f"advisor_http_request_seconds_sum{_labels(key)} {took[key]:.6f}",
                f"advisor_http_request_seconds_count{_labels(key)} {count}",
            ]
        stored = self.stored(service)
        lines += ["# HELP advisor_measurements Measurements stored.", "# TYPE advisor_measurements gauge"]
        lines += [f'advisor_measurements{{origin="{origin}"}} {count}' for origin, count in stored.items() if not origin.startswith("_")]
        lines += ["# HELP advisor_machines Machines known.", "# TYPE advisor_machines gauge", f"advisor_machines {stored['_machines']}"]
        lines += [
            "# HELP advisor_start_time_seconds When the service started.",
            "# TYPE advisor_start_time_seconds gauge",
            f"advisor_start_time_seconds {service.started:.0f}",
        ]
        return "\n".join(lines) + "\n"


def _labels(key: tuple[str, str, int]) -> str:
    method, route, status = key
    return f'{{method="{method}",route="{route}",status="{status}"}}'


router = APIRouter()


@router.get("/metrics", tags=["service"], response_class=Response)
def metrics(request: Request, service: ServiceDep) -> Response:
    """Counters in Prometheus' text format."""
    return Response(request.app.state.metrics.text(service), media_type="text/plain; version=0.0.4; charset=utf-8")
