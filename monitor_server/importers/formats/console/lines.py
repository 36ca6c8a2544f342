"""Reads one line of console output, in the forms in which trainers print the numbers of a step."""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from math import inf

from monitor_server.importers.formats.console.named_numbers import QUALIFIERS, NamedNumbers, word_before
from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import is_known, number, signal_of, step_keys, ungrouped

__all__ = [
    "CONFIGURED",
    "GROUPED",
    "NUMBER",
    "OpenDictionary",
    "is_evaluation",
    "read_dictionary",
    "read_epoch",
    "read_named_numbers",
    "read_pipes",
    "read_refused_numbers",
    "read_step_of_epoch",
    "read_verl_line",
]

NUMBER = r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
# A number in a text for people, with all its commas, so that 0,5 is not read as 0; see `ungrouped`.
GROUPED = NUMBER + r"(?:(?:,\d+)+(?:\.\d*)?)?(?![\w.]|,\d)"
# What a trainer counts beside steps: "step=1,250 tokens" is step 1 and 250 tokens.
_COUNTED = r"\s(?:tokens|samples|examples|prompts|responses|completions|episodes|rollouts|ms|s|sec|seconds)"
# The number of a step or of all steps, which f"{step:,}" or f"{step:_}" may have grouped.
COUNT = rf"(?:\d{{1,3}}(?:[,_]\d{{3}}){{1,4}}(?!\d|{_COUNTED}(?![\w./-]|\s*[=:\d]))|\d{{1,15}})"
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
_VERL = re.compile(r"step:\s?(\d{1,15}) - (?=.)")
_OF_A_NAME = frozenset("/_.-:")  # before "step:", these belong to a longer name, such as "timing_s/step:"
_REFUSED_AT = re.compile(r"step:? (\d{1,15})")
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
_NAMED = re.compile(r"(?<![\w./-])([A-Za-z][\w./-]{0,60})\s*[=:]\s*(" + GROUPED + r")(%?)")
_BETWEEN_SEGMENTS = re.compile(r"\||(?<!\d),|,(?!\d)| - ")
_EVALUATION = re.compile(
    r"(?<![\w./-])(?:eval|evaluat(?:e|ed|ing|ion)|val|valid|validat(?:e|ed|ing|ion))(?![\w./-])", re.IGNORECASE
)
# In a printed dict, the numbers of a critic or an evaluation may have a dict of their own, with the policy's names.
_INNER = re.compile(r"""["']([^"'\\]{1,200})["']\s*:\s*\{|(\})""")
CONFIGURED = ("learning_rate", "lr")  # a configuration contains these beside its number of steps
MEASURED = ("reward/mean", "loss/policy", "grad/norm")
_IS_COUNT = re.compile(COUNT)
_EPOCH_OF_STEP = re.compile(r"(?<![A-Za-z_])epoch\W{0,3}(\d{1,9})(?![\w.])", re.IGNORECASE)
_STEP_NAMES = ("step", "global_step", "steps", "global_steps", "iter", "iteration")


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
        row["step"] = _count(step.group(1))
    elif (earlier := _step_earlier(before, row)) is not None:
        row["step"] = earlier
    elif leading := _NUMBERS_BEFORE.search(before):
        for found in _NAMED.finditer(before, leading.start()):
            if found[1] not in _STEP_NAMES and not word_before(before, found.start()):
                row.setdefault(found[1], found[2])
    rollout = _ROLLOUT_BEFORE.search(before)
    return row, int(rollout.group(1)) if rollout else None


def _step_earlier(before: str, row: Row) -> int | None:
    """Return the step that the text before a dict names, where the dict has none and is that of the training."""
    found = _STEP_EARLIER.search(before) if "tep" in before and "%|" not in before else None
    if found is None or step_keys(tuple(row)) or not QUALIFIERS.isdisjoint(re.split(r"[\s_]", found[2].lower())):
        return None
    return _count(found[1])


def _is_measured(row: Row) -> bool:
    """Return whether a dict has a number that no configuration sets; a logger or a variable may be named as one."""
    return any(signal_of(key) in MEASURED and number(value) is not None for key, value in row.items())


def is_evaluation(text: str) -> bool:
    """Return whether the text before the numbers of a line says that they are those of an evaluation.

    >>> is_evaluation("[eval] step 3: "), is_evaluation("evaluator.py:12 step 3: ")
    (True, False)
    """
    return "val" in text.lower() and _EVALUATION.search(text) is not None


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
    return _read_segments(found.group(2), _count(found.group(1)))


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
        for named in _NAMED.finditer(part, segment.end()):  # many loops put only blanks between the numbers
            if named.start() >= end:
                break
            _add(numbers, word_before(part, named.start()), *named.groups())
    return _with_step(numbers.row(), step)


@_with_epoch
def read_named_numbers(line: str) -> Row | None:
    """Return the numbers of a line with ``step=3 reward=0.5``, in any order and with any separators."""
    numbers, step, is_first, end = NamedNumbers(" "), None, True, _evaluation_end(line)
    steps = None  # beside another name of the step, the length of an episode
    for found in _NAMED.finditer(line):
        key, text, percent = found.groups()
        if is_first and found.start() >= end:
            return None
        word = word_before(line, found.start())
        is_step = key.lower() in _STEP_NAMES and _IS_COUNT.fullmatch(text)
        if is_step and (counted := _IS_COUNT.match(line, found.start(2))):  # without the count of tokens after a comma
            if key.lower() == "steps":
                steps = _count(counted[0])
            else:
                step = _count(counted[0])
        else:
            _add(numbers, word, key, text, percent)
        is_first = is_first and step is None and steps is None and word != ""
    step = steps if step is None else step
    return None if step is None else _with_step(numbers.row(), step)


def _evaluation_end(text: str) -> float:
    """Return the place after the first word that says that the numbers after it are those of an evaluation."""
    found = _EVALUATION.search(text) if "val" in text.lower() else None
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


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def _plain(text: str) -> str:
    wrapped = _WRAPPED.match(text) if text.endswith(")") else None
    return wrapped.group(1) if wrapped else text
