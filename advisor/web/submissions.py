"""The write interface: batches of measurements, and their withdrawal. Nothing here works without a token."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import zlib
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Header, Request, Response

from advisor.errors import UsageError
from advisor.usecases import submit as submissions
from advisor.usecases import tokens
from advisor.usecases.serve import ServeOptions, Service
from advisor.usecases.submission_records import MAX_RECORDS
from advisor.web.errors import HttpError
from advisor.web.render import json_answer, service_of

router = APIRouter(tags=["write"])

_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_GZIP = 31
_CHUNK = 1 << 16
#: Bodies of up to so many times the limit are read to their end before they are refused.
_DRAINED = 4
MOST_REASON = 1_000

#: What the API's description says of bodies that are read by hand.
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The records of `advisor results export` (machine, environment, device, run, measurement, trial) as JSON lines or as"
        ' {"records": [...]}, or the document of `advisor bench --json`. May be compressed (Content-Encoding: gzip).',
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"records": {"type": "array", "items": {"type": "object"}}}}},
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    },
    "security": [{"bearer": []}],
}
_RETRACTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["id", "reason"],
                    "properties": {"id": {"type": "string"}, "reason": {"type": "string", "maxLength": MOST_REASON}},
                }
            }
        },
    },
    "security": [{"bearer": []}],
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    code: {"description": text}
    for code, text in (
        (400, "the batch is wrong; the message says which record and why"),
        (401, "no token, or one that is unknown, revoked or expired"),
        (403, "the token may not do this, or the run belongs to another"),
        (408, "the body did not come in time"),
        (409, "stored with other content, or the idempotency key came with another body"),
        (413, "the body is too large, compressed or not"),
        (415, "a content type or encoding that is not taken"),
        (429, "too many requests; Retry-After says when"),
    )
}

Authorization = Annotated[str | None, Header(max_length=500)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", description="The same key with the same body is stored once.")]


@router.post("/api/measurements", openapi_extra=_BODY, responses=_ANSWERS, response_class=Response)
async def submit_measurements(request: Request, authorization: Authorization = None, idempotency_key: Key = None) -> Response:
    """Store a batch: all of it, or nothing. What is known already is passed over."""
    token = await authorize(request, authorization, "submit")
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise HttpError(400, "BAD-KEY", "an idempotency key is 1 to 200 visible ASCII characters")
    body = await read_body(request)
    digest = hashlib.sha256(body).hexdigest()
    is_lines = content_type(request) in ("application/x-ndjson", "application/jsonl")
    service = service_of(request)

    def store() -> dict[str, Any]:
        document = decode_lines(body) if is_lines else decode(body)
        with service.turn:
            return submissions.submit(service.store, token, document, key=idempotency_key, body_hash=digest, policy=service.policy)

    answer = await to_thread.run_sync(store)
    return json_answer(request, answer, status=200 if answer["repeated"] else 201)


@router.post("/api/retractions", openapi_extra=_RETRACTION, responses=_ANSWERS, response_class=Response)
async def retract(request: Request, authorization: Authorization = None) -> Response:
    """Withdraw a measurement, a trial or a run that this token submitted; it stays, marked, and out of all answers."""
    token = await authorize(request, authorization, "retract")
    wanted = decode(await read_body(request))
    identifier, reason = (wanted.get(name) if isinstance(wanted, dict) else None for name in ("id", "reason"))
    if (
        not isinstance(identifier, str)
        or not isinstance(reason, str)
        or not identifier.strip()
        or not 0 < len(reason.strip()) <= MOST_REASON
    ):
        raise HttpError(400, "BAD-RETRACTION", f'a retraction is {{"id": "…", "reason": "…"}}, the reason 1 to {MOST_REASON:,} characters')
    store = service_of(request).store
    return json_answer(request, await to_thread.run_sync(submissions.retract, store, token, identifier[:100], reason))


async def authorize(request: Request, header: str | None, scope: str) -> tokens.Token:
    """Return the token of a request, or raise 401, 403 or 429; failures are limited by address, successes by token."""
    limits, address = request.app.state, request.client.host if request.client else ""
    _limit(limits.failures.wait(address, take=False), "too many wrong tokens from this address")
    kind, _, secret = (header or "").partition(" ")
    service: Service = service_of(request)
    token = None
    if kind.lower() == "bearer" and secret.strip().isascii() and secret.strip():
        token = await to_thread.run_sync(tokens.check, service.store, secret.strip())
    if token is None:
        limits.failures.wait(address)
        said = "no token" if header is None else "the token is unknown, revoked or expired"
        raise HttpError(
            401, "NO-TOKEN", said, "send Authorization: Bearer TOKEN; `advisor token create` makes one", {"www-authenticate": "Bearer"}
        )
    if scope not in token.scopes:
        raise HttpError(403, "SCOPE", f"this token may not {scope}", f"advisor token create NAME --scope {scope}")
    _limit(limits.submissions.wait(token.id), "too many requests with this token")
    return token


def _limit(wait: float, message: str) -> None:
    if wait > 0:
        raise HttpError(429, "TOO-MANY", message, headers={"retry-after": str(math.ceil(wait))})


def content_type(request: Request) -> str:
    """Return the media type of a request, without parameters."""
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


async def read_body(request: Request) -> bytes:
    """Return the body, decompressed. It is never held beyond the limits: 413 ends it where it grows too large, 408 where it stalls."""
    options = service_of(request).options
    kinds = ("application/json", "application/x-ndjson", "application/jsonl")
    if content_type(request) not in kinds:
        raise HttpError(415, "CONTENT-TYPE", f"the body is one of {', '.join(kinds)}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise HttpError(415, "CONTENT-ENCODING", "the body is plain or compressed by gzip")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > options.max_body_bytes:
        await _drain(request, int(length), options)
        raise _too_large(options.max_body_bytes)
    sink = _Unzip(options.max_decompressed_bytes) if encoding == "gzip" else _Plain()
    received = 0
    try:
        async with asyncio.timeout(options.body_timeout_s):
            async for chunk in request.stream():
                received += len(chunk)
                if received > options.max_body_bytes:
                    raise _too_large(options.max_body_bytes)
                sink.feed(chunk)
    except TimeoutError as error:
        raise HttpError(408, "TIMEOUT", f"the body did not come within {options.body_timeout_s:g} s") from error
    return sink.finish()


async def _drain(request: Request, length: int, options: ServeOptions) -> None:
    """Read and forget a body that is too large, within reason: who is cut off while sending never sees the answer."""
    if length > _DRAINED * options.max_body_bytes:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(options.body_timeout_s):
            async for _ in request.stream():
                pass


def _too_large(limit: int) -> HttpError:
    return HttpError(413, "TOO-LARGE", f"a body is at most {limit:,} bytes", "send fewer measurements at a time", {"connection": "close"})


class _Plain:
    """Collects a body that is not compressed."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        self.parts.append(chunk)

    def finish(self) -> bytes:
        return b"".join(self.parts)


class _Unzip(_Plain):
    """Decompresses as the body comes in, and stops at the limit instead of unpacking what is beyond it."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.left = limit
        self.limit = limit
        self.stream = zlib.decompressobj(_GZIP)

    def feed(self, chunk: bytes) -> None:
        if self.stream.eof and chunk:
            raise HttpError(400, "BAD-GZIP", "there is something behind the end of the compressed body")
        data, room, part = chunk, 0, b""
        # Output can be pending with no input left: only a part that does not fill its room says that there is none.
        while data or len(part) == room > 0:
            room = min(self.left + 1, _CHUNK)
            try:
                part = self.stream.decompress(data, room)
            except zlib.error as error:
                raise HttpError(400, "BAD-GZIP", "the body is not what gzip writes") from error
            self.left -= len(part)
            if self.left < 0:
                raise HttpError(
                    413, "TOO-LARGE", f"a body is at most {self.limit:,} bytes when decompressed", None, {"connection": "close"}
                )
            self.parts.append(part)
            data = self.stream.unconsumed_tail
        if self.stream.unused_data:
            raise HttpError(400, "BAD-GZIP", "there is something behind the end of the compressed body")

    def finish(self) -> bytes:
        if not self.stream.eof:
            raise HttpError(400, "BAD-GZIP", "the compressed body ends too early")
        return super().finish()


def decode(body: bytes) -> Any:
    """Return the value of a JSON body; UsageError where it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {str(error)[:200]}", code="BAD-JSON") from error


def decode_lines(body: bytes) -> list[Any]:
    """Return the values of JSON lines; UsageError names the first that is none."""
    found = []
    for number, line in enumerate(body.splitlines(), 1):
        if not line.strip():
            continue
        if len(found) > MAX_RECORDS:
            break
        try:
            found.append(msgspec.json.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"line {number} is not JSON: {str(error)[:200]}", code="BAD-JSON") from error
    return found
