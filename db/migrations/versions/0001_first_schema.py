"""The first released schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

#: JSON text on SQLite, JSONB on PostgreSQL.
DOCUMENT = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_sheets",
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("vendor", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("device", name="pk_device_sheets"),
    )
    op.create_table(
        "machines",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_machines"),
        sa.UniqueConstraint("content_hash", name="uq_machines_content_hash"),
    )
    op.create_index("ix_machines_fingerprint", "machines", ["fingerprint"])

    op.create_table(
        "recommendations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("question_hash", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("question", DOCUMENT, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recommendations"),
    )
    op.create_index("ix_recommendations_created_at", "recommendations", ["created_at"])
    op.create_index("ix_recommendations_question_hash", "recommendations", ["question_hash"])

    op.create_table(
        "retractions",
        sa.Column("target_id", sa.String(length=36), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("target_id", name="pk_retractions"),
    )
    op.create_table(
        "software_environments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_software_environments"),
        sa.UniqueConstraint("content_hash", name="uq_software_environments_content_hash"),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("machine_id", sa.String(length=36), nullable=True),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("vendor", sa.Text(), nullable=True),
        sa.Column("arch", sa.Text(), nullable=True),
        sa.Column("profile", sa.Text(), nullable=True),
        sa.Column("hw_class", sa.Text(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_devices_machine_id_machines"),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("machine_id", "key", name="uq_devices_machine_id_key"),
    )
    op.create_table(
        "plans",
        sa.Column("recommendation_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(["recommendation_id"], ["recommendations.id"], name="fk_plans_recommendation_id_recommendations"),
        sa.PrimaryKeyConstraint("recommendation_id", "position", name="pk_plans"),
    )
    op.create_index("ix_plans_plan_id", "plans", ["plan_id"])

    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.String(length=36), nullable=True),
        sa.Column("environment_id", sa.String(length=36), nullable=False),
        sa.Column("command", sa.Text(), nullable=True),
        sa.Column("settings", DOCUMENT, nullable=False),
        sa.Column("tool_version", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["environment_id"], ["software_environments.id"], name="fk_runs_environment_id_software_environments"),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_runs_machine_id_machines"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_environment_id", "runs", ["environment_id"])
    op.create_index("ix_runs_machine_id", "runs", ["machine_id"])
    op.create_index("ix_runs_started_at", "runs", ["started_at"])

    op.create_table(
        "measurements",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("device_id", sa.String(length=36), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("benchmark", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("backend_version", sa.Text(), nullable=True),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("params", DOCUMENT, nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("run_low", sa.Double(), nullable=True),
        sa.Column("run_high", sa.Double(), nullable=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("max_error", sa.Double(), nullable=True),
        sa.Column("sample_seconds", sa.LargeBinary(), nullable=True),
        sa.Column("conditions", DOCUMENT, nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_measurements_device_id_devices"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_measurements_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
    )
    op.create_index("ix_measurements_backend", "measurements", ["backend"])
    op.create_index("ix_measurements_device_id", "measurements", ["device_id"])
    op.create_index("ix_measurements_newest", "measurements", ["measured_at", "id"])
    op.create_index("ix_measurements_model", "measurements", ["model"])
    op.create_index("ix_measurements_origin", "measurements", ["origin"])
    op.create_index("ix_measurements_run_id", "measurements", ["run_id"])
    op.create_index("ix_measurements_series", "measurements", ["series", "measured_at"])
    op.create_index("ix_measurements_what", "measurements", ["benchmark", "device_id", "dtype", "backend"])

    op.create_table(
        "plan_trials",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("framework", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_plan_trials_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_plan_trials"),
    )
    op.create_index("ix_plan_trials_measured_at", "plan_trials", ["measured_at"])
    op.create_index("ix_plan_trials_model", "plan_trials", ["model"])
    op.create_index("ix_plan_trials_plan_id", "plan_trials", ["plan_id"])
    op.create_index("ix_plan_trials_run_id", "plan_trials", ["run_id"])


def downgrade() -> None:
    op.drop_table("plan_trials")
    op.drop_table("measurements")
    op.drop_table("runs")
    op.drop_table("plans")
    op.drop_table("devices")
    op.drop_table("software_environments")
    op.drop_table("retractions")
    op.drop_table("recommendations")
    op.drop_table("machines")
    op.drop_table("device_sheets")
