"""Console logs: the output of a trainer, with progress bars, warnings and samples of text in between.

Slurm and nohup outputs, ``output.log`` of W&B and the streams of notebooks are console logs.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from monitor_server.importers.formats.console.joined_rows import SlimeRollouts, TwoProcesses, is_step
from monitor_server.importers.formats.console.named_numbers import QUALIFIERS
from monitor_server.importers.formats.console.printed_blocks import PrintedBlock
from monitor_server.importers.formats.console.printed_dictionaries import (
    OpenDictionary,
    read_dictionary,
    read_refused_numbers,
)
from monitor_server.importers.formats.console.progress_bars import BarSteps
from monitor_server.importers.formats.console.step_lines import (
    read_epoch,
    read_named_numbers,
    read_pipes,
    read_step_of_epoch,
    read_verl_line,
)
from monitor_server.importers.protocol import ReadReport, RecordedLog, Row
from monitor_server.importers.signal_names import number, signal_of
from monitor_server.importers.source import is_text, lines

__all__ = ["ConsoleLog", "console_rows"]

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
# A step with its number, for lines without a dict. Four searches for a literal take a tenth of the time of a single
# search with alternatives.
_COUNTED = tuple(re.compile(word + r"s?\W{0,4}\d") for word in ("tep", "STEP", "iter(?:ation)?", "Iter(?:ation)?"))
# The name of a dict among the numbers of a line: "step=3 reward=0.5 best={".
_NAME_BEFORE = re.compile(r"([A-Za-z_]\w*)\s?[:=]\s?$")
LONGEST_NAME = 64
_OWN_STEP = re.compile(r"""["'](?:train(?:er)?/)?(?:global_)?step["']\s*:""", re.IGNORECASE)
# With log_completions, TRL draws a table of prompts and completions in a panel. Their texts may contain anything.
_SAMPLES = ("│ │", "│ ┃")
MAX_TEXT = 1 << 16
WANDB_LINE_BYTES = 4096  # the longest line in output.log
EPOCH_BEGIN = 200  # "Epoch 3" must begin within this many bytes of the line, which may have colours
MAX_EPOCHS = 1 << 16
BAR_BEGIN = 6  # "100%|" must begin within this many bytes of the line


class ConsoleLog:
    """The printed lines of TRL, transformers, verl, SkyRL, OpenRLHF, slime, prime-rl, NeMo-RL and similar loops."""

    name = "console log"
    is_specific = False

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether the file is text."""
        del path
        return is_text(head)

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the one run of the file."""
        yield RecordedLog(name=path.name, path=path, format=self.name, read=lambda report: _file_rows(path, report))


def _file_rows(path: Path, report: ReadReport) -> Iterator[Row]:
    is_empty = True
    for row in console_rows(_whole_numbers(path, report)):
        is_empty = False
        yield row
    if is_empty:  # the only numbers may be in W&B's messages about refused values, or each of an epoch
        epochs: list[tuple[int, Row]] = []
        for _, line in lines(path, ReadReport(is_growing=report.is_growing)):
            if b"Dropping entry" in line and (refused := read_refused_numbers(line)) and is_step(refused):
                yield refused
            elif b"poch" in line[:EPOCH_BEGIN] and len(epochs) < MAX_EPOCHS and (found := read_epoch(_text(line))):
                epochs.append(found)
        is_rising = all(before < after for (before, _), (after, _) in pairwise(epochs))
        for _, row in epochs:
            yield row if is_rising else {key: value for key, value in row.items() if key != "step"}


def _whole_numbers(path: Path, report: ReadReport) -> Iterator[bytes]:
    """Yield the lines of a file, those of verl that W&B has cut without the number at their end, and report these."""
    for place, line in lines(path, report):
        if len(line) == WANDB_LINE_BYTES and b"step:" in line and b" - " in line:
            message = (
                f"it ends at {WANDB_LINE_BYTES:,} bytes, where W&B cuts a line; the run file (.wandb) has the rest"
            )
            report.add_problem(path, f"line {place}", message)
            yield line.rpartition(b" - ")[0]
        else:
            yield line


def _text(line: bytes) -> str:
    """Return the text of a line without colours."""
    text = line[:MAX_TEXT].decode(errors="replace")
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def console_rows(printed: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows among printed lines; rows without a step are numbered later."""
    block, rollouts, processes = PrintedBlock(), SlimeRollouts(), TwoProcesses()
    multiline, bars = OpenDictionary(), BarSteps()
    bar = b""  # the newest line that began with a progress bar
    for line in printed:
        if b"%|" in line[:BAR_BEGIN]:
            bar = line
        if not (
            b"tep" in line
            or b"{" in line
            or b"iter" in line
            or b"Iter" in line
            or b"STEP" in line
            or b"Epoch:[" in line
            or b"\xe2\x80\xa2" in line  # a bullet
            or b" Results" in line
            or line.startswith(b"|")
            or multiline.is_open
            or (block.row and line.startswith(b"---"))
        ):
            continue  # progress bars and most samples of text
        text = _text(line)
        if text.startswith(_SAMPLES):
            continue
        whole = multiline.take(text)
        if whole is None or block.takes(whole):
            continue
        text = whole
        if not text.startswith("|"):
            yield from block.close()
            block.open(text)
        found = read_dictionary(text) if "{" in text else None
        counted = _numbers_with_step(text) if found is None else _numbers_around(text, found[0])
        for row in rollouts.take(*found) if found and counted is None else processes.take(counted, text):
            yield from bars.take(row, bar)
    yield from block.close()
    yield from processes.close()
    yield from bars.close()
    yield from rollouts.close()


def _numbers_with_step(text: str) -> Row | None:
    """Return the numbers of a line that contains its step, or None."""
    row = read_verl_line(text) if "tep:" in text else None
    if row is None and any(counted.search(text) for counted in _COUNTED):
        row = read_pipes(text) or read_named_numbers(text)
    if row is None and "Epoch:[" in text:
        row = read_step_of_epoch(text)
    return row


def _numbers_around(text: str, inner: Row) -> Row | None:
    """Return the numbers of a line with a step and a dict, with those of the dict that the line has nowhere else."""
    begin, end = text.index("{"), text.rfind("}") + 1
    if not begin or "%|" in text[:begin] or _OWN_STEP.search(text, begin):
        return None  # the dict has numbers of its own beside those of a progress bar or of another step
    row = _numbers_with_step(text[:begin] + (text[end:] if end > begin else ""))
    if row is None:
        return None
    name = _NAME_BEFORE.search(text[max(0, begin - LONGEST_NAME) : begin])
    if text[begin - 1] in "'\"" or (name and not QUALIFIERS.isdisjoint(name[1].lower().split("_"))):
        return row  # a text in quotes, or numbers such as the best so far
    signals = {signal for key in row if (signal := signal_of(key)) is not None}
    added = {key: value for key, value in inner.items() if number(value) is not None and signal_of(key) not in signals}
    return {**added, **row}
