"""The root of the command line: the list of subcommands, and the exit status for the result of each.

A subcommand's module is imported only to run, complete or describe this subcommand, so that ``rlvitals --help`` does
not wait for numpy, FastAPI or SQLAlchemy.
"""

import contextlib
import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from monitor_server.commands.errors import EXIT_INTERRUPTED, CommandError, missing_library
from monitor_server.commands.terminal import error

__all__ = ["main"]

# Name → the module with the command as `run`, and its line in `rlvitals --help`.
COMMANDS = {
    "check": ("logs.check", "Check any old training log, without a server."),
    "serve": ("collector.serve", "Run the collector and its dashboard."),
    "demo": ("collector.demo", "Watch a real training run rise, degrade and die."),
    "runs": ("collector.runs", "List the runs of a collector, the newest first."),
    "watch": ("collector.watch", "Watch the runs of a collector in a terminal, the most urgent first."),
    "alerts": ("collector.alerts", "List the alerts of a collector, or acknowledge one."),
    "silence": ("collector.silence", "Silence alerts, list silences, or end one."),
    "rules": ("collector.rules", "Check, try, apply and list rules of your own."),
    "warranty": ("collector.warranty", "Print how much of its budget of false pages a run has spent."),
    "reassess": ("collector.reassess.command", "Replay judged runs with this version's detectors, and compare."),
    "incident": ("collector.incident", "Download the report of an alert as one HTML file."),
    "keys": ("collector.keys", "Make, list and revoke the keys of a collector."),
    "notifications": ("collector.notifications", "List the channels of notifications, test one, or reload them."),
    "doctor": ("doctor.command", "Check settings, database and collector, and give advice."),
    "audit": ("collector.audit", "List changes and their authors, the newest first."),
    "backup": ("collector.backup", "Copy the database while the collector runs."),
    "export": ("collector.export", "Download a run or a project as JSON lines or Parquet."),
    "sync": ("collector.sync", "Send the records that trainers have left on disk."),
    "replay": ("logs.replay", "Send old runs to a collector, to view them step by step."),
    "backtest": ("logs.backtest", "Report what the detectors would have found in old runs."),
    "calibrate": ("logs.calibrate", "Calibrate the thresholds on your own healthy runs."),
}


class CommandGroup(TyperGroup):
    """The subcommands of `COMMANDS`, each imported on first use."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of all subcommands, in the order of the help page."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # noqa: ANN401 - Typer's own
        """Import and return a subcommand; None if there is none of this name."""
        del ctx
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer's own
        """Write the root's help page from `COMMANDS` alone, without importing a subcommand."""
        listed = {name: TyperCommand(name, help=line) for name, (_, line) in COMMANDS.items()}
        self.commands.update({name: command for name, command in listed.items() if name not in self.commands})
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - Typer's own
        """Run the subcommand and leave with the exit status that it returned.

        A `CommandError`, or the collector's `StartupError`, is one line on standard error and status 1. Ctrl-C is one
        line and status 130, except in a command that lasts until Ctrl-C and returns its own status.
        """
        try:
            status = super().invoke(ctx)
        except BrokenPipeError:  # the reader of the output has closed it
            _discard_output()
            status = 1
        except KeyboardInterrupt:  # a script that goes on would take the work for done
            error("interrupted before the command had done its work")
            status = EXIT_INTERRUPTED
        except ModuleNotFoundError as missing:  # of an extra, imported when it was needed
            error(missing_library(str(ctx.invoked_subcommand), missing))
            status = 1
        except (CommandError, _startup_error()) as failure:
            error(failure)
            status = 1
        raise typer.Exit(int(status or 0))


def _discard_output() -> None:
    """Discard the remaining output, so that the end of the process does not fail on it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="rlvitals",
    cls=CommandGroup,
    help="Live health monitoring for RL post-training of language models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - takes longer than the help page

        typer.echo(f"rlvitals {version('rlvitals')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda v: _print_version(asked=v)),
    ] = False,
) -> None:
    del version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 after a one-line error, 2 for what the parser refuses."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot write a character gets its escape
            with contextlib.suppress(OSError):  # some pipes cannot be changed, and stay unchanged
                stream.reconfigure(errors="backslashreplace")
    try:
        typer.main.get_command(app).main(None if arguments is None else list(arguments), prog_name="rlvitals")
    except SystemExit as end:
        return int(end.code or 0)
    except OSError as failure:  # this includes the help page, which belongs to no subcommand
        if failure.errno != errno.ENOSPC or failure.filename is not None:
            raise
        _discard_output()
        error(f"the output must be written to a place that has room: {failure.strerror}")
        return 1
    return 0


def _load(name: str) -> Any:  # noqa: ANN401 - a command of Typer's vendored click
    place, line = COMMANDS[name]
    gc.disable()  # imported objects stay, and searching them for garbage takes an eighth of the time
    try:
        module = importlib.import_module(f"monitor_server.commands.{place}")
    except ModuleNotFoundError as missing:
        raise missing_library(name, missing) from missing
    finally:
        gc.enable()
    single = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    single.command(name, help=line)(module.run)
    return typer.main.get_command(single)


def _startup_error() -> type[Exception]:
    """Return the collector's error for a failed start; it exists only if its module has been imported."""
    module = sys.modules.get("monitor_server.errors")
    return CommandError if module is None else module.StartupError
