"""The command line: every `rlvitals` command and its options. What each does is elsewhere."""

import argparse
import getpass
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from pydantic import ValidationError

from monitor_server.commands.client import DEFAULT_URL, CommandError, ask
from monitor_server.errors import StartupError
from monitor_server.settings import Settings

__all__ = ["main"]

RUN_COLUMNS = ("project", "name", "status", "phase", "last_step", "alerts", "id")
ALERT_COLUMNS = (
    "project",
    "run",
    "severity",
    "state",
    "kind",
    "opened_step",
    "severity_step",
    "id",
    "acknowledged_by",
    "summary",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give the exit status: 0, or 1 after one line that says why."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except (StartupError, CommandError) as error:
        print(f"rlvitals: {error}", file=sys.stderr)
    except BrokenPipeError:  # the reader of a list has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 0
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rlvitals", description="Live health monitoring for RL post-training")
    commands = parser.add_subparsers(required=True, metavar="command")
    serve = commands.add_parser("serve", help="run collector and dashboard")
    serve.add_argument("--host", help="address to listen on (RLVITALS_HOST, 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on, 0 for a free one (RLVITALS_PORT, 8600)")
    serve.add_argument("--database", dest="database_url", help="SQLAlchemy URL (RLVITALS_DATABASE_URL)")
    serve.set_defaults(command=_serve)
    runs = commands.add_parser("runs", help="list the runs of a collector, the newest first")
    runs.set_defaults(command=lambda given: _list(given.url, "/runs", RUN_COLUMNS, limit=given.limit))
    alerts = commands.add_parser("alerts", help="list the alerts of a collector, the newest first; or acknowledge one")
    alerts.add_argument("--ack", metavar="ID", help="acknowledge this alert instead")
    alerts.add_argument("--by", default=None, help="who acknowledges it (your user name)")
    alerts.add_argument("--note", default="", help="what you say to it")
    alerts.set_defaults(command=_alerts)
    for listing in (runs, alerts):
        listing.add_argument("--url", default=DEFAULT_URL, help="address of the collector")
        listing.add_argument("--limit", type=int, default=50, help="most lines")
    demo = importlib.import_module("monitor_server.commands.demo")
    demo_parser = commands.add_parser("demo", help="watch a real run rise, degrade and die")
    demo.add_arguments(demo_parser)
    demo_parser.set_defaults(command=demo.run)
    sync = commands.add_parser("sync", help="send what trainers have left on disk")
    sync.add_argument("folder", nargs="?", help="spool (RLVITALS_SPOOL_DIR, else the one in your cache)")
    sync.add_argument("--url", help="address of the collector (RLVITALS_URL)")
    sync.set_defaults(command=_sync)
    replay = importlib.import_module("monitor_server.commands.replay")
    replay_parser = commands.add_parser("replay", help="send old runs to a collector, to be looked at step by step")
    replay.add_arguments(replay_parser)
    replay_parser.set_defaults(command=replay.run)
    backtest = importlib.import_module("monitor_server.commands.backtest")
    backtest_parser = commands.add_parser("backtest", help="say what the detectors would have said about old runs")
    backtest.add_arguments(backtest_parser)
    backtest_parser.set_defaults(command=backtest.run)
    calibrate = importlib.import_module("monitor_server.commands.calibrate")
    calibrate_parser = commands.add_parser("calibrate", help="set thresholds by your own healthy runs")
    calibrate.add_arguments(calibrate_parser)
    calibrate_parser.set_defaults(command=calibrate.run)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    # Only this command needs the server's libraries.
    from monitor_server.app import create_app  # noqa: PLC0415 - see above
    from monitor_server.commands.server import Server, bind  # noqa: PLC0415 - see above

    given = {name: getattr(arguments, name) for name in ("host", "port", "database_url")}
    settings = _settings({name: value for name, value in given.items() if value is not None})
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with bind(settings.host, settings.port) as listening:
        host, port = listening.getsockname()[:2]
        app = create_app(settings.model_copy(update={"port": port}))
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        print(f"rlvitals is listening on {address} and writes to {settings.database_url}; Ctrl-C ends it", flush=True)
        Server(app, log_level="warning").run(sockets=[listening])
    return 0


def _sync(arguments: argparse.Namespace) -> int:
    # A process of its own, because the collector's package knows the SDK's wire schema and no more.
    folder = [arguments.folder] if arguments.folder else []
    url = ["--url", arguments.url] if arguments.url else []
    return subprocess.call([sys.executable, "-m", "trainer_hooks.sync", *folder, *url])  # noqa: S603 - our own module


def _alerts(given: argparse.Namespace) -> int:
    if not given.ack:
        return _list(given.url, "/alerts", ALERT_COLUMNS, limit=given.limit)
    body = {"by": given.by or getpass.getuser(), "note": given.note}
    alert = ask("POST", given.url, f"/alerts/{quote(given.ack, safe='')}/ack", json=body)
    print(f"{alert['kind']} of {alert['run']}: {alert['state']}, acknowledged by {alert['acknowledged_by']}")
    return 0


def _settings(given: Mapping[str, object]) -> Settings:
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        told = "; ".join(f"RLVITALS_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())
        raise CommandError(f"a setting cannot be used: {told}; see docs/configuration.md") from error


def _list(url: str, path: str, columns: Sequence[str], *, limit: int) -> int:
    told = ask("GET", url, path, fields={"limit": str(limit)})
    rows = [
        columns,
        *(["" if item[name] is None else str(item[name]) for name in columns] for item in told["items"]),
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
