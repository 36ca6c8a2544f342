"""`rlvitals serve`: run the collector and its dashboard."""

import gc
import logging
import sys
from contextlib import suppress
from typing import Annotated, Literal

import typer

from monitor_server.access.audit.settings_changes import record_settings
from monitor_server.access.keys.required_keys import prepare_keys
from monitor_server.app import create_app, create_server
from monitor_server.commands.doctor.findings import Level
from monitor_server.commands.doctor.settings_findings import check_settings
from monitor_server.commands.settings import read_settings
from monitor_server.errors import StartupError
from monitor_server.http_server.server import announce, bind, bound_url
from monitor_server.instrumentation.collector_log import line_handler
from monitor_server.store.address import shown_url

__all__ = ["run"]

logger = logging.getLogger(__name__)

# While detection computes, the thread that answers requests waits this long, not 5 ms, for Python's lock. In four pairs
# of measurements on a busy machine with two cores, ingest beside detection became 1.1 to 1.8 times as fast.
SWITCH_SECONDS = 0.0005


def run(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on (RLVITALS_HOST, 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port, 0 for a free one (RLVITALS_PORT, 8600).")
    ] = None,
    role: Annotated[
        Literal["all", "ingest", "projector", "web"] | None,
        typer.Option(
            show_choices=False, help="Tasks of this process: all, ingest, projector or web (RLVITALS_ROLE, all)."
        ),
    ] = None,
    database: Annotated[str | None, typer.Option(help="SQLAlchemy URL (RLVITALS_DATABASE_URL).")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Allow other machines to connect without keys: anyone can read and write."),
    ] = False,
) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    given: dict[str, object] = {"host": host, "port": port, "database_url": database, "role": role}
    given |= {"insecure": True} if insecure else {}
    settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    logging.basicConfig(level=settings.log_level.upper(), handlers=[line_handler(settings.log_format)])
    logging.getLogger("alembic").setLevel(logging.WARNING)
    for finding in check_settings():
        if finding.level is Level.WARNING:
            logger.warning("%s; %s", finding.text, finding.advice)
    sys.setswitchinterval(SWITCH_SECONDS)
    with bind(settings.host, settings.port) as listening:
        application = create_app(settings.model_copy(update={"port": listening.getsockname()[1]}))
        collector = application.state.collector
        try:
            prepare_keys(collector.store, settings, now=collector.clock())
            record_settings(collector.store, settings, now=collector.clock())
            collector.keys.read()
        except StartupError:
            collector.store.close()
            raise
        line = (
            f"rlvitals is listening on {bound_url(listening)} and writes to {shown_url(settings.database_url)}; "
            "Ctrl-C ends it"
        )
        gc.freeze()  # imported objects stay; a full collection that visits them stops every thread
        with suppress(KeyboardInterrupt):  # uvicorn ends the server, and then sends the signal on
            create_server(application, on_listening=lambda: announce(line)).run(sockets=[listening])
    return 0
