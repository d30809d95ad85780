"""Tokens of the HTTP service: create, list, revoke, and tell whether one may do something. The secret itself is never stored."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from advisor.errors import UnknownName, UsageError
from advisor.results.hash import clean, new_id
from advisor.results.rows import iso, now
from advisor.results.schema import ApiToken, RunOwner, Submission
from advisor.results.store import Store

SCHEMA_VERSION = 1
#: What a token may do, and what it is for.
SCOPES = {"submit": "store measurements", "retract": "withdraw what was stored with the same token"}
#: Marks a secret as one of ours, so that scanners of repositories can find it.
PREFIX = "adv_"
#: Random bytes of a secret.
_ENTROPY = 32
_SPAN = re.compile(r"(\d{1,5})\s*([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that was checked: its id, name and scopes."""

    id: str
    name: str
    scopes: frozenset[str]


def hash_of(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create(url: str, name: str, scopes: tuple[str, ...] = ("submit",), expires: str | None = None) -> dict[str, Any]:
    """Make a token and return it with its ``secret``, which cannot be shown again; ``expires`` is a span such as ``90d``."""
    name = clean(name.strip())
    if not 0 < len(name) <= 100:
        raise UsageError("a token needs a name of 1 to 100 characters: who or what uses it")
    for scope in scopes:
        if scope not in SCOPES:
            raise UnknownName("scope", scope, SCOPES)
    secret = PREFIX + secrets.token_urlsafe(_ENTROPY)
    row = {
        "id": new_id(),
        "name": name,
        "token_hash": hash_of(secret),
        "scopes": ",".join(sorted(set(scopes))),
        "created_at": now(),
        "expires_at": _expiry(expires),
        "revoked_at": None,
    }
    with Store.open(url) as store, store.writing() as connection:
        connection.execute(sa.insert(ApiToken), [row])
    return {"schema_version": SCHEMA_VERSION, **_shown(row), "secret": secret}


def _expiry(text: str | None) -> datetime | None:
    if text is None:
        return None
    match = _SPAN.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"not a span of time: {text!r}", "write it as 12h, 90d or 52w")
    return now() + timedelta(**{_UNITS[match[2]]: int(match[1])})


def _shown(row: Any) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "scopes": row["scopes"].split(","),
        "created_at": iso(row["created_at"]),
        "expires_at": iso(row["expires_at"]),
        "revoked_at": iso(row["revoked_at"]),
    }


def list_tokens(url: str) -> dict[str, Any]:
    """Return all tokens without their secrets, with how many batches each submitted, and when the last one came."""
    received = (
        sa.select(Submission.token_id, sa.func.count().label("submissions"), sa.func.max(Submission.received_at).label("last_at"))
        .group_by(Submission.token_id)
        .subquery()
    )
    query = (
        sa.select(*ApiToken.__table__.columns, received.c.submissions, received.c.last_at)
        .outerjoin(received, received.c.token_id == ApiToken.id)
        .order_by(ApiToken.created_at)
    )
    with Store.open(url) as store, store.reading() as connection:
        rows = connection.execute(query).mappings().all()
    moment = now()
    tokens = []
    for row in rows:
        state = "revoked" if row["revoked_at"] else "expired" if row["expires_at"] and row["expires_at"] <= moment else "active"
        tokens.append(_shown(row) | {"state": state, "submissions": row["submissions"] or 0, "last_submission_at": iso(row["last_at"])})
    return {"schema_version": SCHEMA_VERSION, "tokens": tokens}


def revoke(url: str, identifier: str) -> dict[str, Any]:
    """Revoke the token of that id (or the only one whose id begins so, or of that name); it stops working at once."""
    with Store.open(url) as store, store.writing() as connection:
        rows = connection.execute(sa.select(ApiToken.id, ApiToken.name, ApiToken.revoked_at)).all()
        text = identifier.strip()
        found = [row for row in rows if row.name == text] or [row for row in rows if len(text) >= 8 and row.id.startswith(text.lower())]
        active = [row for row in found if row.revoked_at is None]
        if len(active) > 1:
            raise UsageError(f"several tokens are meant by {text!r}: {', '.join(row.id for row in active)}", "give the id")
        if not found:
            raise UnknownName("token", text, [row.name for row in rows], "advisor token list")
        chosen = (active or found)[0]
        if chosen.revoked_at is None:
            connection.execute(sa.update(ApiToken).where(ApiToken.id == chosen.id).values(revoked_at=now()))
    return {"schema_version": SCHEMA_VERSION, "id": chosen.id, "name": chosen.name, "revoked": chosen.revoked_at is None}


def check(store: Store, secret: str) -> Token | None:
    """Return the token of a secret that is known, not revoked and not expired; None otherwise."""
    query = sa.select(ApiToken.id, ApiToken.name, ApiToken.scopes, ApiToken.expires_at).where(
        ApiToken.token_hash == hash_of(secret), ApiToken.revoked_at.is_(None)
    )
    with store.reading() as connection:
        row = connection.execute(query).one_or_none()
    if row is None or (row.expires_at is not None and row.expires_at <= now()):
        return None
    return Token(id=row.id, name=row.name, scopes=frozenset(row.scopes.split(",")))


def owner_of(store: Store, run_id: str) -> str | None:
    """Return the id of the token that a run was submitted with; None where it did not come over HTTP."""
    with store.reading() as connection:
        return connection.execute(sa.select(RunOwner.token_id).where(RunOwner.run_id == run_id)).scalar()
