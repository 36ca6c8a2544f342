"""Numbers that are printed one in each line: NeMo-RL's bullets and the tables of Stable-Baselines3."""

import re
from collections.abc import Iterator

from monitor_server.importers.formats.console.named_numbers import GROUPED, NUMBER
from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import is_known, ungrouped

__all__ = ["PrintedBlock"]

# NeMo-RL prints a heading with the step, "Training Results:", and one bullet for each number.
_STEP = re.compile(r"={3,} (?:Step|step) (\d{1,15})(?:/\d+)? ={3,}")
_BULLET = re.compile(r"•\s*([A-Za-z][\w ./-]{0,60}?):\s*(" + GROUPED + ")")
# Stable-Baselines3 prints a table with one key and value in each line.
_CELL = re.compile(r"^\|\s+([A-Za-z_][\w/ ]{0,60}?)\s*\|\s*(" + NUMBER + r")\s*\|\s*$")
MAX_NUMBERS = 4096


class PrintedBlock:
    """The numbers of one block: bullets under a heading, or the cells of a table."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._is_training = False
        self.row: dict[str, object] = {}

    def takes(self, text: str) -> bool:
        """Process a line if it contains one of the block's numbers, and return whether it does."""
        cell = _CELL.match(text) or (_BULLET.search(text) if self._is_training else None)
        if cell is None:
            return False
        plain = ungrouped(cell.group(2))
        if plain is not None and len(self.row) < MAX_NUMBERS:
            self.row.setdefault(cell.group(1), float(plain))
        return True

    def open(self, text: str) -> None:
        """Process a heading: the step of the following blocks, or the name of one."""
        heading = _STEP.search(text) if "=== " in text else None
        if heading:
            self._step = int(heading.group(1))
        self._is_training = "Training Results:" in text

    def close(self) -> Iterator[Row]:
        """Yield the row of the block that has ended, if it contains a signal."""
        if not self.row:
            return
        row, self.row = self.row, {}
        step = row.get("total_timesteps", self._step)
        if any(map(is_known, row)):
            yield row if step is None else {**row, "step": step}
