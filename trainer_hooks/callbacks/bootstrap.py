"""Loads an adapter in every Python process of an environment, for trainers that have no setting to load one.

``python -m trainer_hooks.callbacks.bootstrap install`` writes a line into the environment's site-packages that does
nothing unless `RLVITALS_HOOKS` names an adapter, such as ``openrlhf``; ``remove`` deletes the line. Ray's processes
also run the line when they start.
"""

import logging
import sys
import sysconfig
from importlib import import_module
from pathlib import Path

from trainer_hooks.settings import hooks_to_load

__all__ = ["load", "main"]

logger = logging.getLogger("trainer_hooks")

PTH = "rlvitals.pth"
# Python executes a line of a .pth file that begins with import at every start, before the program.
LINE = (
    'import os; "RLVITALS_HOOKS" in os.environ and '
    '__import__("trainer_hooks.callbacks.bootstrap").callbacks.bootstrap.load()'
)


def load() -> None:
    """Import the adapters that `RLVITALS_HOOKS` names; one that cannot be imported is logged and left out."""
    for name in hooks_to_load():
        try:
            import_module(f"trainer_hooks.callbacks.{name}")
        except Exception as error:  # noqa: BLE001 - no program may fail to start because of this package
            logger.warning("rlvitals: RLVITALS_HOOKS names %r, which cannot be loaded: %s", name, error)


def main(arguments: list[str], site_packages: Path | None = None) -> int:
    """Install or remove the line, and print the path of its file."""
    file = (site_packages or Path(sysconfig.get_path("purelib"))) / PTH
    match arguments:
        case ["install"]:
            file.write_text(LINE + "\n", encoding="utf-8")
            print(f"{file} loads the adapters that RLVITALS_HOOKS names")  # noqa: T201 - a command's output
        case ["remove"]:
            file.unlink(missing_ok=True)
            print(f"{file} is removed")  # noqa: T201 - likewise
        case _:
            print("usage: python -m trainer_hooks.callbacks.bootstrap install | remove", file=sys.stderr)  # noqa: T201
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
