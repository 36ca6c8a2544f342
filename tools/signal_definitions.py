"""Writes the dashboard's copy of the tables of docs/signals.md, the one place where signals are defined.

`python -m tools.signal_definitions` writes it; a test compares the two.
"""

import re
from pathlib import Path
from typing import Final

__all__ = ["definitions", "main"]

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "signals.md"
COPY: Final = ROOT / "dashboard" / "signal_definitions" / "table.txt"
ROW: Final = re.compile(r"^\| (`[^|]*?) \| ([^|]*) \|", re.MULTILINE)


def definitions(page: str) -> dict[str, str]:
    """Return the definition of each signal in the tables of a page, without marks of Markdown."""
    found: dict[str, str] = {}
    whole = ""
    for names, text in ROW.findall(page):
        plain = re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()
        is_same = plain.startswith("the same")
        whole = whole if is_same else plain  # of rows that differ only in a detail, the first has the whole text
        for name in _expanded(names):
            found.setdefault(name, f"{plain}: {whole}" if is_same else plain)
    return found


def main() -> int:
    """Write the copy."""
    lines = [f"{name}\t{text}" for name, text in sorted(definitions(PAGE.read_text()).items())]
    COPY.write_text("\n".join(lines) + "\n")
    return 0


def _expanded(names: str) -> list[str]:
    """Return the names in a cell; `a0` to `a7` means all names from the first to the last."""
    found = re.findall(r"`([^`]+)`", names)
    numbered = re.fullmatch(r"(.*?)(\d+)", found[-1]) if " to " in names else None
    if numbered is None:
        return found
    return [f"{numbered[1]}{index}" for index in range(int(numbered[2]) + 1)]


if __name__ == "__main__":
    raise SystemExit(main())
