"""Maps the keys of a log to signals, by known names and by the user's mapping, and lists unused keys."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from monitor_server.importers.protocol import LogError, RecordedRow, Row
from monitor_server.importers.signal_names import (
    PLACES,
    SIGNALS,
    all_numbers,
    find_signal_keys,
    number,
    other_step_keys,
    read_signals,
    signal_of,
    step_keys,
)

__all__ = ["NameMapping", "name_unread_keys", "parse_overrides"]

MAX_KEYS = 2000
# A signal has several keys in turn if the second one has this many rows, and one for so many of the first.
LEAST_ROWS_OF_KEY, ROWS_PER_ROW_OF_KEY = 3, 20


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Return signal → key from texts like ``reward/mean=my_reward``.

    Raises:
        LogError: If one has no ``=``, or its left side is not the name of a signal.
    """
    overrides: dict[str, str] = {}
    for text in texts:
        signal, equals, key = text.partition("=")
        signal, key = signal.strip(), key.strip()
        if not (equals and signal and key):
            raise LogError(f"--map must look like reward/mean=my_reward, got {text!r}")
        if signal not in SIGNALS:
            near = difflib.get_close_matches(signal, SIGNALS, n=3) or sorted(SIGNALS)[:3]
            raise LogError(
                f"--map must name a signal (docs/signals.md) before the '=', got {signal!r}; near it: {', '.join(near)}"
            )
        overrides[signal] = key
    return overrides


class NameMapping:
    """Maps one log's rows to signals and records the result for display.

    Args:
        overrides: Signal → the log's own key; it takes precedence over known names.
        aliases: Short names → the log's own keys, from a ``meta.json``, for unknown keys.
        keep_unknown: Whether numbers that are not signals are kept under the trainer's own keys.
    """

    def __init__(
        self,
        overrides: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
        *,
        keep_unknown: bool = False,
    ) -> None:
        self._overrides = overrides or {}
        self._aliases = aliases
        self._keeps_unknown = keep_unknown
        self._is_recorded = False
        self._signs: dict[str, float] = {}  # of the terms of the loss that are read as the entropy
        self._keys: dict[str, int] = {}
        self._row_keys: tuple[str, ...] | None = None  # of the newest row; most rows of a run have the same keys
        self._named: list[tuple[str, str, int]] = []
        self._without_number: list[str] = []  # the keys among these without a number in any row so far
        self._rows = 0  # rows with these keys that are not counted yet
        self._read_rows: dict[str, dict[str, int]] = {}  # of each signal and each key that it was read from
        self.sources: dict[str, str] = {}
        """Signal → the key from which it was read, for overrides; see `mapped`."""

    def signals(self, row: Row) -> dict[str, float]:
        """Return a row's numbers under canonical names, and remember its keys."""
        row_keys = tuple(row)
        if row_keys != self._row_keys:
            self._count()
            self._row_keys, self._named = row_keys, find_signal_keys(row_keys)
            self._without_number = [key for key in row_keys if key not in self._keys and key not in PLACES]
        self._rows += 1
        if self._without_number and len(self._keys) < MAX_KEYS:
            self._add_keys(row)
        found = (
            all_numbers(row, self._aliases, self._signs)
            if self._keeps_unknown
            else read_signals(row, self._named, self._aliases, self._signs)
        )
        if isinstance(row, RecordedRow):
            self._is_recorded = True
            found = {str(key): value for key in row if (value := number(row[key])) is not None}
        for signal, key in self._overrides.items():
            value = number(row.get(key))
            if value is not None:
                found[signal] = value
                found.pop(key, None) if key != signal else None
                self.sources[signal] = key
            elif signal in self.sources:  # a known key in this row is another metric
                found.pop(signal, None)
        return found

    @property
    def keys(self) -> dict[str, int]:
        """Every key with a number → rows since its first number; at most 2,000 keys."""
        self._count()
        return self._keys

    def _count(self) -> None:
        for key in self._row_keys or ():
            if key in self._keys:
                self._keys[key] += self._rows
        if not self._is_recorded:
            self._count_signals()
        self._rows = 0

    def _count_signals(self) -> None:
        best = {signal: key for key, signal, _ in sorted(self._named, key=itemgetter(2), reverse=True)}
        for signal, key in best.items():
            if key in self._keys and signal not in self._overrides:
                rows = self._read_rows.setdefault(signal, {})
                rows[key] = rows.get(key, 0) + self._rows

    def _add_keys(self, row: Row) -> None:
        """Add keys that have a number for the first time; this row is counted with the others."""
        new = [key for key in self._without_number if number(row[key]) is not None][: MAX_KEYS - len(self._keys)]
        if new:
            added = set(new)
            self._without_number = [key for key in self._without_number if key not in added]
            self._rows -= 1
            self._count()
            self._rows = 1
            self._keys.update(dict.fromkeys(new, 0))

    @property
    def notes(self) -> list[str]:
        """A remark for each signal that was read from several keys in turn, which may be several metrics."""
        self._count()
        remarks = []
        for signal, counted in self._read_rows.items():
            first = max(counted, key=counted.__getitem__)
            (rank,) = (rank for _, _, rank in find_signal_keys([first]))
            others = [key for key, _, other in find_signal_keys(counted) if other != rank]
            second = max(others, key=counted.__getitem__, default=first)
            if second != first and counted[second] >= max(LEAST_ROWS_OF_KEY, counted[first] / ROWS_PER_ROW_OF_KEY):
                rows = " and ".join(f"in {counted[key]:,} rows as {key!r}" for key in (first, second))
                remarks.append(
                    f"{signal} was read under several names: {rows}. If these are different metrics, name one with "
                    f"--map {signal}=KEY"
                )
        return remarks

    def keys_of_signals(self) -> dict[str, str]:
        """Return signal → its keys, the most trusted first, joined by commas."""
        found: dict[str, list[str]] = {}
        own = [(key, key, 0) for key in self.keys if key in SIGNALS]
        named = own if self._is_recorded else find_signal_keys(self.keys)
        for key, signal, _ in sorted(named, key=itemgetter(2)):
            if signal not in self._overrides:
                found.setdefault(signal, []).append(key)
        return {signal: ", ".join(keys) for signal, keys in found.items()} | self.sources

    def unknown(self) -> list[str]:
        """Return the keys with numbers that are neither signals nor the step, those with the most rows first."""
        used, rows = set(self.sources.values()), self.keys
        steps = {key for key in rows if step_keys((key,)) or other_step_keys((key,))}
        left = [key for key in rows if self._signal_of(key) is None and key not in used and key not in steps]
        return sorted(left, key=lambda key: -rows[key])

    def _signal_of(self, key: str) -> str | None:
        """Return the signal of a key; in a recorded row, a key is already the name of the signal."""
        if self._is_recorded:
            return key if key in SIGNALS else None
        return signal_of(key)

    def unused_overrides(self) -> dict[str, str]:
        """Return the overrides whose key is in no row."""
        return {signal: key for signal, key in self._overrides.items() if signal not in self.sources}


def name_unread_keys(mappings: Sequence[NameMapping]) -> list[str]:
    """Return a line for each override whose key is in no row of any log; none without a log."""
    unused = [mapping.unused_overrides() for mapping in mappings]
    unread = {
        signal: key for each in unused[:1] for signal, key in each.items() if all(signal in one for one in unused)
    }
    return [f"--map {signal}={key}: no row has this key" for signal, key in unread.items()]
