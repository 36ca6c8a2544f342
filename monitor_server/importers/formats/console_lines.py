"""What one line of console output holds: the shapes in which trainers print a step's numbers."""

import re

from monitor_server.importers.keys import is_known
from monitor_server.importers.protocol import Row

__all__ = ["NUMBER", "dictionary", "named_numbers", "pipes", "verl"]

NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity)"
# A pair of a printed dict or JSON object: 'kl': 0.1, "kl": "0.1", 'kl': np.float64(0.1), 'kl': tensor(0.1
_PAIR = re.compile(
    r"""["']([^"'\\]{1,200})["']\s*:\s*(?:["']([^"'\\]{0,40})["']|(?:[A-Za-z_.]{1,20}\d{0,2}\()?("""
    + NUMBER
    + r""")(?![\w.]))"""
)
# What stands before the dict and counts: "Global step 3:", "step 3:", "step=3".
_STEP_BEFORE = re.compile(
    r"(?:^|[^A-Za-z_])(?:global[ _])?step\s*[:=#]?\s*(\d{1,15})\s*(?:/\s*\d+)?\W*$", re.IGNORECASE
)
# slime counts rollouts on other lines than updates: "rollout 3:", "perf 3:".
_ROLLOUT_BEFORE = re.compile(r"(?:^|[^A-Za-z_])(?:rollout|perf|passrate)\s+(\d{1,15})\s*:\s*$", re.IGNORECASE)
_VERL = re.compile(r"(?:^|\s|\))step:\s?(\d{1,15}) - (.+)")
_WRAPPED = re.compile(r"^[A-Za-z_.]{1,20}\d{0,2}\((" + NUMBER + r")\b")
_PIPE_STEP = re.compile(
    r"(?<![A-Za-z] )(?:^|[^A-Za-z])(?:Global )?Step:?\s*(\d{1,15})(?:\s*/\s*\d+)?\s*[|:,]\s*(.+)", re.IGNORECASE
)
_SEGMENT = re.compile(r"^\W{0,3}([A-Za-z][\w./ -]{0,60}?)\s*(?:[:=]\s*|\s)(" + NUMBER + r")(?![\w.])")
_NAMED = re.compile(r"(?<![\w./-])([A-Za-z][\w./-]{0,60})\s*[=:]\s*(" + NUMBER + r")(?![\w.])")
_STEP_NAMES = ("step", "global_step", "steps", "global_steps", "iter", "iteration")


def dictionary(line: str) -> tuple[Row, int | None] | None:
    """Return the numbers of a dict or JSON object printed in a line, and the rollout that counts it, if one does.

    TRL, transformers, ms-swift, OpenRLHF (``Global step 3: {...}``) and slime (``step 3: {...}``) print these.
    """
    begin = line.find("{")
    if begin < 0 or "Dropping entry" in line:  # W&B repeats what it refused
        return None
    row: dict[str, object] = {}
    for key, text, number in _PAIR.findall(line, begin):
        row.setdefault(key, text or number)
    if not row:
        return None
    before = line[max(0, begin - 200) : begin]
    step = _STEP_BEFORE.search(before)
    if step:
        row["step"] = int(step.group(1))
    rollout = _ROLLOUT_BEFORE.search(before)
    return row, int(rollout.group(1)) if rollout else None


def verl(line: str) -> Row | None:
    """Return the numbers of a line ``step:3 - actor/entropy:0.5 - …``, which verl and SkyRL print."""
    found = _VERL.search(line)
    if found is None:
        return None
    row: dict[str, object] = {}
    for part in found.group(2).split(" - "):
        key, colon, text = part.rpartition(":")
        if colon:
            row[key.strip()] = _plain(text)
    if not row:
        return None
    row["step"] = int(found.group(1))
    return row


def pipes(line: str) -> Row | None:
    """Return the numbers of a line ``Step 3 | Reward 0.5 | Grad. Norm 1.2``, which prime-rl and many loops print."""
    found = _PIPE_STEP.search(line)
    if found is None or "Micro Step" in line:
        return None
    row: dict[str, object] = {}
    for part in re.split(r"[|,]| - ", found.group(2)):
        segment = _SEGMENT.match(part.strip())
        if segment:
            row.setdefault(segment.group(1).strip(), segment.group(2))
    return _with_step(row, int(found.group(1)))


def named_numbers(line: str) -> Row | None:
    """Return the numbers of a line with ``step=3 reward=0.5``, in any order and with any separators."""
    row: dict[str, object] = {}
    step = None
    for key, text in _NAMED.findall(line):
        if key.lower() in _STEP_NAMES and text.isdigit():
            step = int(text)
        else:
            row.setdefault(key, text)
    return None if step is None else _with_step(row, step)


def _with_step(row: dict[str, object], step: int) -> Row | None:
    if not any(map(is_known, row)):
        return None
    return {**row, "step": step}


def _plain(text: str) -> str:
    wrapped = _WRAPPED.match(text) if text.endswith(")") else None
    return wrapped.group(1) if wrapped else text
