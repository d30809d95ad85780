"""Measurements again, column by column, for statistics; and what was pushed where.

Whoever upgrades fills the columns from the rows, in the same transaction.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

#: JSON text on SQLite, JSONB on PostgreSQL.
DOCUMENT = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
PACKED = ("ids", "series", "moments", "readings", "devices", "runs", "whats", "cases")

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "column_codes",
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("code", name="pk_column_codes"),
        sa.UniqueConstraint("kind", "key", name="uq_column_codes_kind_key"),
    )
    op.create_table(
        "column_chunks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("benchmark", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.LargeBinary(), nullable=False) for name in PACKED),
        sa.PrimaryKeyConstraint("id", name="pk_column_chunks"),
    )
    op.create_table(
        "deliveries",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("record_id", sa.String(length=36), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("target", "kind", "record_id", name="pk_deliveries"),
    )
    op.create_index("ix_column_chunks_benchmark", "column_chunks", ["benchmark", "level"])
    if op.get_bind().dialect.name == "postgresql":
        # Compressing arrays of numbers that hardly compress would only take time.
        for name in PACKED:
            op.execute(f"ALTER TABLE column_chunks ALTER COLUMN {name} SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("column_chunks")
    op.drop_table("column_codes")
