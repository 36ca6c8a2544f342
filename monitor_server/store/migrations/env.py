"""Alembic's environment: runs the migrations on the connection that `Store.open` passes."""

from alembic import context

from monitor_server.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
