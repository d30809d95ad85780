"""Alembic environment. The caller opens the connection and its transaction; see advisor.results.migrate."""

from alembic import context

from advisor.results.schema import VERSION_TABLE, Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=True,
    # SQLite cannot alter a column in place: Alembic copies the table.
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
