"""A server (``advisor serve``) as the target of a push: batches over HTTP, each with a key by which a repetition is known."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from advisor.errors import EnvironmentLacks, UsageError
from advisor.results.deliveries import MEASUREMENT, TRIAL
from advisor.usecases.push_targets import Answer, Record

TIMEOUT_S = 30.0
#: How often a server that is busy is asked again, and the longest wait before that.
BUSY_TRIES, LONGEST_WAIT_S = 5, 30.0
#: Answers after which the same request may succeed.
_BUSY = (429, 503)
#: Answers that refuse what was sent, not who sent it: the batch is halved until the record that is refused stands alone.
_OF_THE_BATCH = (400, 403, 409, 413, 422)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is not carried to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class ServerTarget:
    """A server by its address, with a token."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment or parts.username:
            raise UsageError(f"not the address of a server: {url!r}", "http://HOST:8000")
        if not token:
            hint = "--token-file FILE, or ADVISOR_TOKEN; `advisor token create NAME` there makes one"
            raise UsageError("a server takes nothing without a token", hint, "TOKEN")
        self.name = url.rstrip("/")
        self._token = token.strip()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def close(self) -> None:
        """Nothing is open."""

    def send(self, records: list[Record]) -> Answer:
        """Submit the records in one batch; where it is refused, in halves."""
        context = [item for item in records if item["record"] not in (MEASUREMENT, TRIAL)]
        return self._halves(context, [item for item in records if item["record"] in (MEASUREMENT, TRIAL)])

    def _halves(self, context: list[Record], records: list[Record]) -> Answer:
        body = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in [*_needed(context, records), *records]).encode()
        status, said = self._post("/api/measurements", body, "application/x-ndjson")
        if status in (200, 201):
            return Answer(0 if said["repeated"] else sum(said["new"].get(kind, 0) for kind in (MEASUREMENT, TRIAL)))
        if len(records) == 1:
            return Answer(refused={records[0]["id"]: _why(said)})
        middle = len(records) // 2
        first, second = self._halves(context, records[:middle]), self._halves(context, records[middle:])
        return Answer(first.new + second.new, first.refused | second.refused)

    def withdraw(self, identifier: str, reason: str) -> str | None:
        """Withdraw what was submitted with this token."""
        body = json.dumps({"id": identifier, "reason": reason[:1000]}).encode()
        status, said = self._post("/api/retractions", body, "application/json")
        return None if status == 200 else _why(said)

    def _post(self, path: str, body: bytes, kind: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a request; EnvironmentLacks where there is no server, or it does not let us in."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": kind,
            "Content-Encoding": "gzip",
            "Accept": "application/json",
            "Idempotency-Key": hashlib.sha256(path.encode() + body).hexdigest(),
        }
        data = gzip.compress(body, mtime=0)
        for attempt in range(BUSY_TRIES + 1):
            request = urllib.request.Request(self.name + path, data=data, headers=headers, method="POST")  # noqa: S310 - http(s) only
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                    return answer.status, _json(answer.read())
            except urllib.error.HTTPError as error:
                said = _json(error.read())
                if error.code in _BUSY and attempt < BUSY_TRIES:
                    time.sleep(min(LONGEST_WAIT_S, _seconds(error.headers.get("Retry-After"))))
                    continue
                return self._refused(error.code, said)
            except (OSError, ValueError) as error:
                reason = getattr(error, "reason", None) or error
                raise EnvironmentLacks("NO-SERVER", f"cannot reach {self.name}: {reason}", "push again when it is there") from error
        raise AssertionError("unreachable")

    def _refused(self, status: int, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        code = (said.get("error") or {}).get("code")
        if status == 401 or code == "SCOPE":
            raise UsageError(f"{self.name} does not take this token: {_why(said)}", "ask whoever runs the server for another", "TOKEN")
        if status in _OF_THE_BATCH or status == 404:
            return status, said
        raise EnvironmentLacks("NO-SERVER", f"{self.name} answered {status}: {_why(said)}", "push again later")


def _needed(context: list[Record], records: list[Record]) -> list[Record]:
    """Return what these records refer to: their runs, and the machines and environments of those."""
    runs = {item["run_id"] for item in records}
    named = {
        key for item in context if item["record"] == "run" and item["id"] in runs for key in (item["machine_id"], item["environment_id"])
    }
    return [item for item in context if item["id"] in runs | named]


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _why(said: dict[str, Any]) -> str:
    error = said.get("error")
    return str(error.get("message")) if isinstance(error, dict) else "no reason was given"


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 1.0
