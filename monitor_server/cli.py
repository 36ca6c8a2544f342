"""The command line: `rlvitals serve`, `runs`, `alerts` and `demo`. What each does is elsewhere."""

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence

from monitor_server.errors import StartupError
from monitor_server.settings import Settings

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give the exit status."""
    parser = argparse.ArgumentParser(prog="rlvitals", description="Live health monitoring for RL post-training")
    commands = parser.add_subparsers(required=True, metavar="command")
    serve = commands.add_parser("serve", help="run collector and dashboard")
    serve.add_argument("--host", help="address to listen on (RLVITALS_HOST, 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (RLVITALS_PORT, 8600)")
    serve.add_argument("--database", dest="database_url", help="SQLAlchemy URL (RLVITALS_DATABASE_URL)")
    serve.set_defaults(command=_serve)
    demo = importlib.import_module("monitor_server.demo")
    demo_parser = commands.add_parser("demo", help="watch a real run rise, degrade and die")
    demo.add_arguments(demo_parser)
    demo_parser.set_defaults(command=demo.run)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except StartupError as error:
        print(f"rlvitals: {error}", file=sys.stderr)  # noqa: T201 - this is a command line
        return 1


def _serve(arguments: argparse.Namespace) -> int:
    from monitor_server.app import create_app  # noqa: PLC0415 - the other commands need no server
    from monitor_server.server import Server, bind  # noqa: PLC0415 - likewise

    given = {name: getattr(arguments, name) for name in ("host", "port", "database_url")}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    listening = bind(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    app = create_app(settings.model_copy(update={"port": port}))
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    print(f"rlvitals is listening on {address} with {settings.database_url}; Ctrl-C ends it", flush=True)  # noqa: T201
    Server(app, log_level="warning").run(sockets=[listening])
    return 0


if __name__ == "__main__":
    sys.exit(main())
