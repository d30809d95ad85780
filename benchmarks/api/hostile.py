"""Requests made to break a reader, each with what a service may answer."""

from __future__ import annotations

import gzip
import http.client
import json
import zlib
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

SUBMIT = "/api/measurements"
WORDS = (
    "' OR 1=1 --", "'; DROP TABLE measurements; --", '" OR ""="', "%", "_", "../../../../etc/passwd", "..%2f..%2fetc%2fpasswd",
    "/etc/passwd", "file:///etc/passwd", "\\..\\..\\windows", "{{7*7}}", "<script>alert(1)</script>", "\u202e", "\ud7ff", "é" * 150,
    "\x7f", "$(id)", "`id`", "-1", "1e999", "NaN", "0x", "𝟙", "٣",
)  # fmt: skip
ADDRESSES = (
    "/machines/{}", "/machines/{}.json", "/devices/{}", "/devices/{}.json", "/measurements/{}", "/measurements/{}.json", "/static/{}",
    "/accuracy/{}.svg", "/recommend/{}.svg", "/{}",
)  # fmt: skip
PARAMETERS = (
    "benchmark", "backend", "device", "dtype", "machine", "model", "metric", "origin", "status", "run", "since", "cursor", "limit",
)  # fmt: skip


def bodies() -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """Yield (name, body, headers) of submissions that must all be refused."""
    bomb = gzip.compress(b" " * (64 << 20))
    yield "zip bomb", bomb, {"Content-Encoding": "gzip"}
    yield "zip bomb in a zip bomb", gzip.compress(bomb), {"Content-Encoding": "gzip"}
    yield "deflate called gzip", zlib.compress(b"[]"), {"Content-Encoding": "gzip"}
    yield "gzip cut off", gzip.compress(b'[{"a": 1}]' * 1000)[:-20], {"Content-Encoding": "gzip"}
    yield "gzip and more", gzip.compress(b"[]") + b"more", {"Content-Encoding": "gzip"}
    yield "unknown encoding", b"[]", {"Content-Encoding": "br"}
    yield "oversized", b"[" + b" " * (9 << 20) + b"]", {}
    yield "nested", b"[" * 100_000 + b"]" * 100_000, {}
    yield "nested in a record", b'[{"params": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}]", {}
    yield "no JSON", b"\xff\xfe\x00", {}
    yield "empty", b"", {}
    yield "a number", b"7", {}
    yield "a huge number", b'[{"value": 1' + b"0" * 5000 + b"}]", {}
    yield "no number", b'[{"value": NaN}]', {}
    yield "too many records", json.dumps([{}] * 2001).encode(), {}
    yield "another type", b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}


def fields() -> Iterator[tuple[str, bytes]]:
    """Yield (name, body) of submissions with one odd field: they may be refused or stored, and must not break anything."""
    good = {"benchmark": "gemm", "backend": "t", "device": "d", "dtype": "fp32", "metric": "seconds", "value": 1.0}
    for name in ("id", "run_id", "measured_at", "samples", "sample_seconds", "params", "conditions", "value", "machine_id", "benchmark"):
        for value in ({}, [], "../../etc/passwd", "'; DROP TABLE runs; --", -1, 1e308, [[["x"]]], True):
            yield f"{name} = {value!r}", json.dumps([{**good, name: value}]).encode()


def attack(address: str, secret: str) -> list[str]:
    """Send everything; return what was not answered as it should be."""
    host = urlsplit(address).netloc
    failed = []
    for pattern in ADDRESSES:
        for word in WORDS:
            path = pattern.format(quote(word, safe=""))
            status = _ask(host, "GET", path, None, {})
            if status >= 500:
                failed.append(f"GET {path}: {status}")
    for page in ("/measurements", "/compare", "/machines", "/recommend"):
        for name in PARAMETERS:
            for word in WORDS:
                path = f"{page}?{name}={quote(word)}"
                status = _ask(host, "GET", path, None, {})
                if status >= 500:
                    failed.append(f"GET {path}: {status}")
    for path in (SUBMIT, "/api/retractions"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            status = _ask(host, method, path, b"{}", {"Content-Type": "application/json"})
            if status not in (401, 405, 429):
                failed.append(f"{method} {path} without a token: {status}")
    own = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    for name, body, headers in bodies():
        status = _ask(host, "POST", SUBMIT, body, {**own, **headers})
        if not 400 <= status < 500:
            failed.append(f"{name}: {status}")
    for name, body in fields():
        status = _ask(host, "POST", SUBMIT, body, own)
        if status >= 500:
            failed.append(f"{name}: {status}")
    return failed


def _ask(host: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> int:
    """Return the status of an answer; 599 where the connection ended without one."""
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 599
    finally:
        connection.close()
