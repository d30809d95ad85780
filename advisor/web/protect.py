"""What guards every response: security headers, the names the server answers to, and limits of rate."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[..., Awaitable[None]]

#: No script at all, nothing from elsewhere, no framing, forms only to this server.
POLICY = "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
#: A picture opened by itself carries its own style and may load nothing.
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Protection:
    """ASGI middleware: sets the headers, and answers only to its own names (a foreign page must not reach a local server by DNS)."""

    def __init__(self, app: App, allowed: tuple[str, ...]) -> None:
        self.app = app
        self.allowed = frozenset(name.lower() for name in allowed)

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if "*" not in self.allowed and host_name(headers.get(b"host", b"").decode("latin-1")) not in self.allowed:
            await _refuse(send, 421, "WRONG-HOST", "this server does not answer to that name", "advisor serve --allow-host NAME")
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await _refuse(send, 400, "NUL", "a NUL character is part of no name")
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                picture = any(n.lower() == b"content-type" and v.startswith(b"image/svg") for n, v in message["headers"])
                extra = {**HEADERS, "content-security-policy": PICTURE_POLICY if picture else POLICY}
                added = [(name.encode(), value.encode()) for name, value in extra.items() if name.encode() not in present]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self.app(scope, receive, guarded)


def host_name(header: str) -> str:
    """Return the host of a Host header, without its port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


async def _refuse(send: Send, status: int, code: str, message: str, hint: str | None = None) -> None:
    body = json.dumps({"error": {"code": code, "message": message, "hint": hint}}).encode()
    own = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", POLICY.encode()),
    ]
    headers = [*own, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class RateLimit:
    """A token bucket per key: ``per_minute`` on average, a burst of a tenth of that (at least 5). Safe between threads."""

    MOST_KEYS = 10_000

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = per_minute / 60.0
        self.burst = max(5.0, per_minute / 10.0)
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str, *, take: bool = True) -> float:
        """Take one from the key's bucket and return 0, or return the seconds until there is one; ``take`` False only looks."""
        moment = self._clock()
        with self._lock:
            level, then = self._levels.pop(key, (self.burst, moment))
            level = min(self.burst, level + (moment - then) * self.rate)
            allowed = level >= 1.0
            self._levels[key] = (level - 1.0 if allowed and take else level, moment)
            while len(self._levels) > self.MOST_KEYS:
                self._levels.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self.rate
