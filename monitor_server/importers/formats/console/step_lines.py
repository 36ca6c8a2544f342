"""Reads one line of named numbers, in the forms in which trainers print the numbers of a step."""

import re
from collections.abc import Callable
from functools import wraps
from math import inf

from monitor_server.importers.formats.console.named_numbers import (
    CONFIGURED,
    COUNT,
    EVALUATION,
    GROUPED,
    NAMED,
    NUMBER,
    STEP_NAMES,
    NamedNumbers,
    is_evaluation,
    read_count,
    word_before,
)
from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import is_known, signal_of, ungrouped

__all__ = ["read_epoch", "read_named_numbers", "read_pipes", "read_step_of_epoch", "read_verl_line"]

_VERL = re.compile(r"step:\s?(\d{1,15}) - (?=.)")
_OF_A_NAME = frozenset("/_.-:")  # before "step:", these belong to a longer name, such as "timing_s/step:"
_WRAPPED = re.compile(r"^[A-Za-z_.]{1,20}\d{0,2}\((" + NUMBER + r")\b")
_PIPE_STEP = re.compile(
    rf"(?:\[|(?<![A-Za-z] )(?:^|[^A-Za-z]))(?:(?:Global )?Step|Iter(?:ation)?):?\s*({COUNT})(?:\s*/\s*{COUNT})?\s*"
    r"(?:\([^()]{0,60}\)\s*)?(?:[]|:,]+|-\s)\s*(.+)",
    re.IGNORECASE,
)
# The place of the call in a logger's prefix, with the step after it: "trainer:train_step:187 - step=3".
_OWN_STEP_LATER = rf"(?<![A-Za-z_./-])(?i:(?:global[ _])?step)(?:\s*[=:]\s*|\s){COUNT}(?![\w.])"
_PLACE_OF_CALL = re.compile(
    r"(?:\w:|\.py[ :]|[A-Z] )[a-z_]*step:\d{1,9}"
    rf"(?:(?: - |\]\s)(?=.{{0,400}}?{_OWN_STEP_LATER})|:\s(?={_OWN_STEP_LATER}))"
)
# MiniMind counts the steps of each epoch: "Epoch:[1/2](3/500), Reward: 0.5".
_STEP_OF_EPOCH = re.compile(r"Epoch:\[(\d{1,9})/\d{1,9}\]\((\d{1,15})/(\d{1,15})\)\s*(.+)")
_EPOCH = re.compile(r"^\W{0,20}Epoch:?\s*(\d{1,15})(?:\s*/\s*\d{1,15})?\s*(?:[]|:,]+|-\s)\s*(.+)", re.IGNORECASE)
_SEGMENT = re.compile(r"^\W{0,3}([A-Za-z][\w./ -]{0,60}?)\s*(?:[:=]\s*|\s)(" + GROUPED + r")\s?(%?)")
_BETWEEN_SEGMENTS = re.compile(r"\||(?<!\d),|,(?!\d)| - ")
_IS_COUNT = re.compile(COUNT)
_EPOCH_OF_STEP = re.compile(r"(?<![A-Za-z_])epoch\W{0,3}(\d{1,9})(?![\w.])", re.IGNORECASE)


def read_verl_line(line: str) -> Row | None:
    """Return the numbers of a line ``step:3 - actor/entropy:0.5 - …``, which verl and SkyRL print."""
    found = _VERL.search(line)
    # A progress bar may end directly before it, on the same line.
    while found and found.start() and ((before := line[found.start() - 1]).isalnum() or before in _OF_A_NAME):
        found = _VERL.search(line, found.start() + 1)
    if found is None:
        return None
    row: dict[str, object] = {}
    for part in line[found.end() :].split(" - "):
        key, colon, text = part.rpartition(":")
        if colon:
            row[key.strip()] = _plain(text)
    if not row:
        return None
    row["step"] = int(found.group(1))
    return row


def _with_epoch(read: Callable[[str], Row | None]) -> Callable[[str], Row | None]:
    """Add the epoch of a line to its numbers, because its step may be counted from the beginning of the epoch."""

    @wraps(read)
    def read_with_epoch(line: str) -> Row | None:
        row = read(line)
        epoch = _EPOCH_OF_STEP.search(line) if row is not None and "poch" in line else None
        return row if row is None or epoch is None else {"epoch": int(epoch.group(1)), **row}

    return read_with_epoch


@_with_epoch
def read_pipes(line: str) -> Row | None:
    """Return the numbers of a line ``Step 3 | Reward 0.5 | Grad. Norm 1.2``, which prime-rl and many loops print."""
    called = _PLACE_OF_CALL.search(line) if "step:" in line else None
    found = _PIPE_STEP.search(line, called.end() - 1 if called else 0)
    if found is None or "Micro Step" in line or is_evaluation(line[: found.start(1)]):
        return None
    return _read_segments(found.group(2), read_count(found.group(1)))


def read_step_of_epoch(line: str) -> Row | None:
    """Return the numbers of a line ``Epoch:[2/3](4/500), Reward: 0.5``, which MiniMind prints; here, of step 504."""
    found = _STEP_OF_EPOCH.search(line)
    if found is None or is_evaluation(line[: found.start()]):
        return None
    epoch, step, steps = map(int, found.groups()[:3])
    return _read_segments(found.group(4), (epoch - 1) * steps + step)


def read_epoch(line: str) -> tuple[int, Row] | None:
    """Return the epoch and the numbers of a line ``Epoch 3 | Reward 0.5``, of a loop without steps.

    Progress bars, which repeat the newest numbers, are passed over.
    """
    found = None if "it/s" in line or "s/it" in line else _EPOCH.match(line)
    if found is None:
        return None
    epoch = int(found.group(1))
    row = _read_segments(found.group(2), epoch)
    return (epoch, row) if row and any(signal_of(key) == "reward/mean" for key in row) else None


def _read_segments(text: str, step: int) -> Row | None:
    """Return the numbers of a text ``Reward 0.5 | Grad. Norm 1.2``, with their step."""
    numbers = NamedNumbers(" ")
    for part in map(str.strip, _BETWEEN_SEGMENTS.split(text)):
        segment = _SEGMENT.match(part)
        if segment is None:
            continue
        _add(numbers, "", *segment.groups())
        end = _evaluation_end(part)
        for named in NAMED.finditer(part, segment.end()):  # many loops put only blanks between the numbers
            if named.start() >= end:
                break
            _add(numbers, word_before(part, named.start()), *named.groups())
    return _with_step(numbers.row(), step)


@_with_epoch
def read_named_numbers(line: str) -> Row | None:
    """Return the numbers of a line with ``step=3 reward=0.5``, in any order and with any separators."""
    numbers, step, is_first, end = NamedNumbers(" "), None, True, _evaluation_end(line)
    steps = None  # beside another name of the step, the length of an episode
    for found in NAMED.finditer(line):
        key, text, percent = found.groups()
        if is_first and found.start() >= end:
            return None
        word = word_before(line, found.start())
        is_step = key.lower() in STEP_NAMES and _IS_COUNT.fullmatch(text)
        if is_step and (counted := _IS_COUNT.match(line, found.start(2))):  # without the count of tokens after a comma
            if key.lower() == "steps":
                steps = read_count(counted[0])
            else:
                step = read_count(counted[0])
        else:
            _add(numbers, word, key, text, percent)
        is_first = is_first and step is None and steps is None and word != ""
    step = steps if step is None else step
    return None if step is None else _with_step(numbers.row(), step)


def _evaluation_end(text: str) -> float:
    """Return the place after the first word that says that the numbers after it are those of an evaluation."""
    found = EVALUATION.search(text) if "val" in text.lower() else None
    return inf if found is None else found.end()


def _with_step(row: dict[str, object], step: int) -> Row | None:
    if not any(is_known(key) and key.lower() not in CONFIGURED for key in row):
        return None
    return {**row, "step": step}


def _add(numbers: NamedNumbers, word: str, name: str, text: str, percent: str) -> None:
    """Add a number to those of its step; with a percent sign, as a share of one."""
    plain = ungrouped(text)
    if plain is not None:
        numbers.add(word, name.strip(), float(plain) / 100.0 if percent else plain)


def _plain(text: str) -> str:
    wrapped = _WRAPPED.match(text) if text.endswith(")") else None
    return wrapped.group(1) if wrapped else text
