"""Defines signals for readers: what each measures and in which unit, from the one table of docs/signals.md."""

import re
from pathlib import Path
from typing import Final

__all__ = ["TABLE", "define", "unit_of"]

# `python -m tools.signal_definitions` writes this file.
TABLE: Final = dict(line.split("\t", 1) for line in (Path(__file__).parent / "table.txt").read_text().splitlines())
# The first pattern that a name matches gives its unit; docs/signals.md states them before its tables.
UNITS: Final = (
    (re.compile(r"_(frac|share)(_max)?$|^(control/(share|prob)|text/|similarity/)"), "share"),
    (re.compile(r"_seconds$"), "s"),
    (re.compile(r"_bytes$"), "bytes"),
    (re.compile(r"^likelihood/correct_seq$|^(moe|qk)/.*entropy|^entropy/paired"), "nats"),
    (re.compile(r"^(likelihood|entropy|displacement|mismatch|kl)/"), "nats/token"),
    (re.compile(r"^length/"), "tokens"),
    (re.compile(r"^tools/calls$"), "calls"),
)


def define(signal: str) -> str:
    """Return what a signal measures, or an empty text for a name that the trainer has chosen itself."""
    return TABLE.get(signal, "")


def unit_of(signal: str) -> str:
    """Return the unit of a signal that is defined, or an empty text where it has none or is not known."""
    if signal not in TABLE:
        return ""
    return next((unit for pattern, unit in UNITS if pattern.search(signal)), "")
