"""Which of a log's keys is which signal: by the known names, by the user's word, and what was left over."""

import difflib
from collections.abc import Iterable, Mapping

from monitor_server.importers.keys import PLACES, SIGNALS, all_numbers, number, signal_of, signals_of
from monitor_server.importers.protocol import LogError, Row

__all__ = ["NameMapping", "parse_overrides"]

MAX_KEYS = 2000


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Return signal → key from texts like ``reward/mean=my_reward``.

    Raises:
        LogError: If one has no ``=``, or its left side is no signal's name.
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
    """Maps one log's rows to signals and keeps what it did, to be shown.

    Args:
        overrides: Signal → the log's own key; it is used before any known name.
        aliases: Short names → the log's own keys, from a ``meta.json``, for keys that are not known.
        keep_unknown: Whether numbers that are no signal are kept under the trainer's own keys.
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
        self._named = all_numbers if keep_unknown else signals_of
        self.keys: dict[str, int] = {}
        """Every key with a number → rows; at most 2,000 keys."""
        self.sources: dict[str, str] = {}
        """Signal → the key that it was read from, for overrides; see `mapped`."""

    def signals(self, row: Row) -> dict[str, float]:
        """Return a row's numbers under canonical names, and remember its keys."""
        keys = self.keys
        for key in row:
            if key in keys:
                keys[key] += 1
            elif len(keys) < MAX_KEYS and key not in PLACES and number(row[key]) is not None:
                keys[key] = 1
        found = self._named(row, self._aliases)
        for signal, key in self._overrides.items():
            value = number(row.get(key))
            if value is not None:
                found[signal] = value
                found.pop(key, None) if key != signal else None
                self.sources[signal] = key
        return found

    def mapped(self) -> dict[str, str]:
        """Return signal → the keys that gave it, most trusted first, joined by commas."""
        found: dict[str, list[str]] = {}
        for key in self.keys:
            signal = signal_of(key)
            if signal is not None and signal not in self._overrides:
                found.setdefault(signal, []).append(key)
        return {signal: ", ".join(keys) for signal, keys in found.items()} | self.sources

    def unknown(self) -> list[str]:
        """Return the keys with numbers that are no signal, those of most rows first."""
        used = set(self.sources.values())
        left = [key for key in self.keys if signal_of(key) is None and key not in used]
        return sorted(left, key=lambda key: -self.keys[key])

    def unused_overrides(self) -> dict[str, str]:
        """Return the overrides whose key no row had."""
        return {signal: key for signal, key in self._overrides.items() if signal not in self.sources}
