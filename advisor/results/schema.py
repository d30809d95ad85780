"""The tables of the results database, the same on SQLite and PostgreSQL.

    machines 1-n devices
    machines 1-n runs n-1 software_environments
    runs     1-n measurements n-1 devices
    runs     1-n plan_trials
    recommendations 1-n plans
    retractions            what was withdrawn, of measurements and trials
    device_sheets          published data sheets
    api_tokens 1-n submissions, run_owners    who may submit over HTTP, what came in, and whose it is
    deliveries                                what was pushed where
    column_codes, column_chunks               measurements again, column by column, for statistics; see results/columns.py

Keys are UUIDs in text, so that databases merge; a content hash tells a repetition from a conflict. A measurement is never
edited: a newer one of the same ``series`` supersedes it, a retraction withdraws it. Every change of these tables is a
migration in ``db/migrations/versions``; ``SCHEMA_REVISION`` names the one that this module stands for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import DDL, BigInteger, ForeignKey, Index, LargeBinary, UniqueConstraint, event
from sqlalchemy.orm import Mapped, mapped_column

from advisor.results.schema_base import Base, uuid_key

#: The newest migration, and all that this program can read after an upgrade, oldest first.
KNOWN_REVISIONS = ("0001", "0002", "0003")
SCHEMA_REVISION = KNOWN_REVISIONS[-1]
#: Not Alembic's default name: Optuna's storage uses that one, and refuses a database where it finds another's revision.
VERSION_TABLE = "advisor_schema_version"

ORIGINS = ("local", "shared", "published")


class Machine(Base):
    """A machine as one probe saw it: one row per distinct document of a fingerprint."""

    __tablename__ = "machines"

    id: Mapped[str] = uuid_key()
    fingerprint: Mapped[str] = mapped_column(index=True)
    content_hash: Mapped[str] = mapped_column(unique=True)
    document: Mapped[dict[str, Any]]
    origin: Mapped[str]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class Device(Base):
    """A device of a machine, or (``machine_id`` null) a product that published rows name."""

    __tablename__ = "devices"
    __table_args__ = (UniqueConstraint("machine_id", "key"),)

    id: Mapped[str] = uuid_key()
    machine_id: Mapped[str | None] = mapped_column(ForeignKey("machines.id"))
    key: Mapped[str]
    name: Mapped[str | None]
    target: Mapped[str | None]
    vendor: Mapped[str | None]
    arch: Mapped[str | None]
    profile: Mapped[str | None]
    hw_class: Mapped[str | None]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str | None]


class SoftwareEnvironment(Base):
    """The software a run used: versions of Python, frameworks, drivers, and the variables that steer them."""

    __tablename__ = "software_environments"

    id: Mapped[str] = uuid_key()
    content_hash: Mapped[str] = mapped_column(unique=True)
    document: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class Run(Base):
    """One invocation that measured something; ``finished_at`` stays null where it was killed."""

    __tablename__ = "runs"

    id: Mapped[str] = uuid_key()
    kind: Mapped[str]
    machine_id: Mapped[str | None] = mapped_column(ForeignKey("machines.id"), index=True)
    environment_id: Mapped[str] = mapped_column(ForeignKey("software_environments.id"), index=True)
    command: Mapped[str | None]
    settings: Mapped[dict[str, Any]]
    tool_version: Mapped[str | None]
    origin: Mapped[str]
    started_at: Mapped[datetime] = mapped_column(index=True)
    finished_at: Mapped[datetime | None]


class Measurement(Base):
    """One benchmark result. Names and units are those of ``advisor bench --json``; samples are float32 seconds of one call."""

    __tablename__ = "measurements"
    __table_args__ = (
        Index("ix_measurements_what", "benchmark", "device_id", "dtype", "backend"),
        Index("ix_measurements_series", "series", "measured_at"),
        Index("ix_measurements_newest", "measured_at", "id"),
    )

    id: Mapped[str] = uuid_key()
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), index=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.id"), index=True)
    series: Mapped[str]
    benchmark: Mapped[str]
    backend: Mapped[str] = mapped_column(index=True)
    backend_version: Mapped[str | None]
    dtype: Mapped[str]
    model: Mapped[str | None] = mapped_column(index=True)
    params: Mapped[dict[str, Any]]
    metric: Mapped[str]
    unit: Mapped[str]
    value: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    run_low: Mapped[float | None]
    run_high: Mapped[float | None]
    samples: Mapped[int]
    seconds: Mapped[float]
    status: Mapped[str]
    reason: Mapped[str | None]
    max_error: Mapped[float | None]
    sample_seconds: Mapped[bytes | None] = mapped_column(LargeBinary)
    conditions: Mapped[dict[str, Any]]
    source: Mapped[str | None]
    origin: Mapped[str] = mapped_column(index=True)
    content_hash: Mapped[str]
    measured_at: Mapped[datetime | None]


class PlanTrial(Base):
    """A plan really run for a few steps. (Optuna's storage owns the name ``trials``; both can live in one database.)"""

    __tablename__ = "plan_trials"

    id: Mapped[str] = uuid_key()
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), index=True)
    plan_id: Mapped[str | None] = mapped_column(index=True)
    model: Mapped[str | None] = mapped_column(index=True)
    task: Mapped[str | None]
    framework: Mapped[str | None]
    status: Mapped[str]
    document: Mapped[dict[str, Any]]
    origin: Mapped[str]
    content_hash: Mapped[str]
    measured_at: Mapped[datetime] = mapped_column(index=True)


class Recommendation(Base):
    """An answer with everything it was asked, whole."""

    __tablename__ = "recommendations"

    id: Mapped[str] = uuid_key()
    question_hash: Mapped[str] = mapped_column(index=True)
    content_hash: Mapped[str]
    question: Mapped[dict[str, Any]]
    document: Mapped[dict[str, Any]]
    origin: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(index=True)


class RecommendedPlan(Base):
    """A plan of an answer, so that it can be found by its id; ``position`` 0 is the recommended one."""

    __tablename__ = "plans"

    recommendation_id: Mapped[str] = mapped_column(ForeignKey("recommendations.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    plan_id: Mapped[str] = mapped_column(index=True)
    document: Mapped[dict[str, Any]]


class Retraction(Base):
    """A measurement or trial that was withdrawn, and why. No foreign key: it may arrive before what it withdraws."""

    __tablename__ = "retractions"

    target_id: Mapped[str] = uuid_key()
    reason: Mapped[str]
    created_at: Mapped[datetime]


class DeviceSheet(Base):
    """One row of the published device data sheets, as printed, with its sources."""

    __tablename__ = "device_sheets"

    device: Mapped[str] = mapped_column(primary_key=True)
    vendor: Mapped[str]
    document: Mapped[dict[str, Any]]
    sources: Mapped[str]
    content_hash: Mapped[str]


class ApiToken(Base):
    """A bearer token of the HTTP service; only its SHA-256 is kept (a token is 256 random bits, so no slow hash is needed)."""

    __tablename__ = "api_tokens"

    id: Mapped[str] = uuid_key()
    name: Mapped[str]
    token_hash: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Submission(Base):
    """A batch that came in over HTTP: its idempotency key, the hash of what was sent, and the answer that was given."""

    __tablename__ = "submissions"
    __table_args__ = (Index("ix_submissions_token_id", "token_id", "received_at"),)

    id: Mapped[str] = uuid_key()
    token_id: Mapped[str] = mapped_column(ForeignKey("api_tokens.id"))
    body_hash: Mapped[str]
    document: Mapped[dict[str, Any]]
    received_at: Mapped[datetime]


class RunOwner(Base):
    """Whose token a submitted run belongs to: nobody else may add to it or withdraw it."""

    __tablename__ = "run_owners"

    run_id: Mapped[str] = uuid_key()
    token_id: Mapped[str] = mapped_column(ForeignKey("api_tokens.id"))


class Delivery(Base):
    """What was pushed to a shared database or server, and acknowledged there; what is not here is still to be pushed."""

    __tablename__ = "deliveries"

    target: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    record_id: Mapped[str] = uuid_key()
    delivered_at: Mapped[datetime]


class ColumnCode(Base):
    """A number that stands in the columns for a device, a run, what was measured, its parameters, or an id that is no UUID."""

    __tablename__ = "column_codes"
    __table_args__ = (UniqueConstraint("kind", "key"),)

    code: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    key: Mapped[str]
    document: Mapped[dict[str, Any] | None]


class ColumnChunk(Base):
    """Some measurements of one benchmark, a packed array a column; see ``results/columns.py`` for the elements of each."""

    __tablename__ = "column_chunks"
    __table_args__ = (Index("ix_column_chunks_benchmark", "benchmark", "level"),)

    id: Mapped[str] = uuid_key()
    benchmark: Mapped[str]
    level: Mapped[int]
    size: Mapped[int]
    ids: Mapped[bytes] = mapped_column(LargeBinary)
    series: Mapped[bytes] = mapped_column(LargeBinary)
    moments: Mapped[bytes] = mapped_column(LargeBinary)
    readings: Mapped[bytes] = mapped_column(LargeBinary)
    devices: Mapped[bytes] = mapped_column(LargeBinary)
    runs: Mapped[bytes] = mapped_column(LargeBinary)
    whats: Mapped[bytes] = mapped_column(LargeBinary)
    cases: Mapped[bytes] = mapped_column(LargeBinary)


#: Columns of a chunk that hold packed arrays.
PACKED = ("ids", "series", "moments", "readings", "devices", "runs", "whats", "cases")
#: PostgreSQL would spend its time on compressing arrays of numbers that hardly compress.
STORE_PLAINLY = "ALTER TABLE column_chunks " + ", ".join(f"ALTER COLUMN {name} SET STORAGE EXTERNAL" for name in PACKED)
event.listen(ColumnChunk.__table__, "after_create", DDL(STORE_PLAINLY).execute_if(dialect="postgresql"))
