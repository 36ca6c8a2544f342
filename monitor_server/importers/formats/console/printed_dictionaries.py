"""Reads dicts and JSON objects that a trainer prints with the numbers of a step, in one line or over many."""

import re
from collections.abc import Iterator

from monitor_server.importers.formats.console.named_numbers import (
    COUNT,
    NAMED,
    NUMBER,
    QUALIFIERS,
    STEP_NAMES,
    NamedNumbers,
    is_evaluation,
    read_count,
    word_before,
)
from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import number, signal_of, step_keys

__all__ = ["OpenDictionary", "read_dictionary", "read_refused_numbers"]

# A pair of a printed dict or JSON object: 'kl': 0.1, "kl": "0.1", 'kl': np.float64(0.1), 'kl': tensor(0.1
_PAIR = re.compile(
    r"""["']([^"'\\]{1,200})["']\s*:\s*(?:["']([^"'\\]{0,40})["']|(?:[A-Za-z_.]{1,20}\d{0,2}\()?("""
    + NUMBER
    + r""")(?![\w.]))"""
)
# The text before the dict with the step: "Global step 3:", "step 3:", "step=3".
_STEP_BEFORE = re.compile(
    rf"(?:^|[^A-Za-z_])(?:global[ _])?step\s*[:=#]?\s*({COUNT})\s*(?:/\s*{COUNT})?\W*$", re.IGNORECASE
)
# The text before a dict with the step earlier in it, and between them only numbers and the dict's name:
# "Step 10 metrics: {", "[step 10] train metrics: {", "step=10, time=2.0s, metrics={".
_STEP_EARLIER = re.compile(
    rf"(?:^|[^\w./:-])(?:global[ _])?step(?:\s*[=#]\s*|:?\s+)({COUNT})(?:\s*/\s*{COUNT})?(?![\w.])[\s,;|\])-]*"
    rf"(?:[A-Za-z_]\w{{0,60}}\s?[:=]\s?{NUMBER}[a-z%]{{0,3}}[\s,;|]+)*"
    rf"([A-Za-z_]\w{{0,60}}(?:\s[A-Za-z_]\w{{0,60}}){{0,2}})\s?[:=]\s*$",
    re.IGNORECASE,
)
# Numbers that lead up to a dict which is one of them: "loss: 0.1, entropy: 0.2, reward_data: {".
_NUMBERS_BEFORE = re.compile(rf"(?:[A-Za-z_][\w./-]{{0,60}}\s?[:=]\s?{NUMBER},?\s)+[A-Za-z_]\w{{0,60}}\s?[:=]\s?$")
# Before a printed configuration, whose clip_ratio and response_length are limits and not measured.
_CONFIGURATION_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:config|configuration|cfg|args|arguments|hparams|hyper_?parameters)\s?[:=]\s*(?:\w{1,60}\(\s*)?$",
    re.IGNORECASE,
)
# slime numbers rollouts in other lines than updates: "rollout 3:", "perf 3:".
_ROLLOUT_BEFORE = re.compile(r"(?:^|[^A-Za-z_])(?:rollout|perf|passrate)\s+(\d{1,15})\s*:\s*$", re.IGNORECASE)
# A dict that continues in the next lines begins with a pair or with nothing, and has no closing brace.
_OPENS = re.compile(r"\{\s*(?:[\"'][^\"'\\]{1,200}[\"']\s*:|$)")
_GOES_ON = re.compile(r"^\s*(?:[\"'][^\"'\\]{1,200}[\"']\s*:|[\]}])")
_RAY = re.compile(r"^\([^()]{1,80}\bpid=\d[^()]{0,60}\)\s?")
MAX_DEPTH = 4  # the largest number of dicts around a number, as in JSON lines
MAX_LINES = 1000  # the largest number of lines of one dict
MAX_PART = 400  # the largest number of characters in one of its lines
MAX_BETWEEN = 50  # the largest number of lines of other processes in between
_REFUSED_AT = re.compile(r"step:? (\d{1,15})")
# In a printed dict, the numbers of a critic or an evaluation may have a dict of their own, with the policy's names.
_INNER = re.compile(r"""["']([^"'\\]{1,200})["']\s*:\s*\{|(\})""")
MEASURED = ("reward/mean", "loss/policy", "grad/norm")


def read_dictionary(line: str) -> tuple[Row, int | None] | None:
    """Return the numbers of a dict or JSON object in a line, and the number of its rollout, if the line has one.

    TRL, transformers, ms-swift, OpenRLHF (``Global step 3: {...}``) and slime (``step 3: {...}``) print these.
    """
    begin = line.find("{")
    before = line[max(0, begin - 200) : begin]
    # W&B repeats the values that it refused.
    if begin < 0 or "Dropping entry" in line or is_evaluation(before):
        return None
    numbers = NamedNumbers("/")
    for section, part in _sections(line, begin):
        for key, text, plain in _PAIR.findall(part):
            numbers.add(section, key, text or plain)
    row = numbers.row()
    if not row or (_CONFIGURATION_BEFORE.search(before) and not _is_measured(row)):
        return None
    step = _STEP_BEFORE.search(before)
    if step:
        row["step"] = read_count(step.group(1))
    elif (earlier := _step_earlier(before, row)) is not None:
        row["step"] = earlier
    elif leading := _NUMBERS_BEFORE.search(before):
        for found in NAMED.finditer(before, leading.start()):
            if found[1] not in STEP_NAMES and not word_before(before, found.start()):
                row.setdefault(found[1], found[2])
    rollout = _ROLLOUT_BEFORE.search(before)
    return row, int(rollout.group(1)) if rollout else None


def _step_earlier(before: str, row: Row) -> int | None:
    """Return the step that the text before a dict names, where the dict has none and is that of the training."""
    found = _STEP_EARLIER.search(before) if "tep" in before and "%|" not in before else None
    if found is None or step_keys(tuple(row)) or not QUALIFIERS.isdisjoint(re.split(r"[\s_]", found[2].lower())):
        return None
    return read_count(found[1])


def _is_measured(row: Row) -> bool:
    """Return whether a dict has a number that no configuration sets; a logger or a variable may be named as one."""
    return any(signal_of(key) in MEASURED and number(value) is not None for key, value in row.items())


def _sections(line: str, begin: int) -> Iterator[tuple[str, str]]:
    """Yield the parts of a printed dict that are not of an evaluation, each with the keys of the dicts around it."""
    around: list[str | None] = [""]  # None within an evaluation, and where the dict is too deep
    for inner in _INNER.finditer(line, begin) if line.count("{", begin) > 1 else ():
        key, end = inner.groups()
        outer = around[-1]
        if end and len(around) == 1:  # the end of a text, or of a dict in a list
            continue
        if outer is not None:
            yield outer, line[begin : inner.start()]
        begin = inner.end()
        if end:
            around.pop()
        elif outer is None or len(around) > MAX_DEPTH or is_evaluation(key.replace("_", " ").replace("/", " ")):
            around.append(None)
        else:
            around.append("" if not outer and key == "data" else f"{outer}/{key}".removeprefix("/"))
    if around[-1] is not None:
        yield around[-1], line[begin:]


def read_refused_numbers(line: bytes) -> Row | None:
    """Return the numbers that W&B refused because of a larger earlier step, and repeats with their step."""
    before, _, entry = line.decode(errors="replace").partition("Dropping entry: ")
    step, read = _REFUSED_AT.search(before[-MAX_PART:]), read_dictionary(entry)
    return None if step is None or read is None else {**read[0], "step": int(step.group(1))}


class OpenDictionary:
    """Joins a dict that is printed over many lines, as SkyRL does with ``pprint`` and others with indented JSON."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._heading = ""
        self._depth = 0
        self._between = 0

    @property
    def is_open(self) -> bool:
        """Whether a dict has begun and has not ended."""
        return bool(self._parts)

    def take(self, line: str) -> str | None:
        """Process a line and return the text to read now: the line itself, or the whole dict that it ends.

        None means that the line is part of an unfinished dict. Lines of other processes may be in between; they are
        returned. A line that opens a dict begins again.
        """
        bare = _RAY.sub("", line)
        if self._parts and _GOES_ON.match(bare) and len(self._parts) < MAX_LINES:
            return self._add(bare)
        begin = bare.find("{")
        if begin >= 0 and bare.count("{") > bare.count("}") and _OPENS.match(bare, begin):
            self._parts, self._depth = [], 0
            # The step is before the brace, or at the end of an earlier line.
            before = bare[max(0, begin - 200) : begin]
            heading, self._heading = self._heading, ""
            return self._add((before if before.strip() else heading) + bare[begin:])
        self._between += 1
        if self._between > MAX_BETWEEN:
            self._parts, self._heading = [], ""
        if bare.rstrip().endswith(":") and _STEP_BEFORE.search(bare[-200:]):
            self._heading, self._between = bare[-200:], 0
        return line

    def _add(self, part: str) -> str | None:
        self._parts.append(part[:MAX_PART])
        self._between = 0
        self._depth += part.count("{") - part.count("}")
        if self._depth > 0:
            return None
        whole, self._parts = " ".join(self._parts), []
        return whole
