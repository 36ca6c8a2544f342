"""The steps of a run whose log counts them within each epoch."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from monitor_server.importers.protocol import ReadReport, Row
from monitor_server.importers.signal_names import number, outer_keys
from monitor_server.importers.stepping.own_steps import MAX_STEP, LoggedRow, usable_step

__all__ = ["counted_on"]

MAX_EPOCHS = 4096  # to which a run can return
MAX_WAITING = 100  # rows of one step whose meaning the next step shows
MOST_RISES = 3  # of a number with the first steps, unless it counts the steps
_Epoch = tuple[tuple[str, float], ...]  # the numbers of an epoch by their keys


def counted_on(rows: Iterable[LoggedRow], report: ReadReport) -> Iterator[tuple[LoggedRow, bool]]:
    """Yield rows with steps that go on over the epochs, and whether a row has a higher ``attempt``."""
    logged, epochs, waiting = -inf, _Epochs(), list[LoggedRow]()
    for given in rows:
        row = given._replace(step=usable_step(given.given))
        before, logged = logged, max(logged, _logged_attempt(row.logged))
        is_named = -inf < before < logged
        if waiting and (is_named or len(waiting) == MAX_WAITING or epochs.is_other_step(row)):
            epochs.decide(row)
            yield from ((epochs.count_on(each, report), False) for each in waiting)
            waiting.clear()
        epochs = _Epochs() if is_named else epochs
        if waiting or epochs.is_undecided(row):
            waiting.append(row)
        else:
            yield epochs.count_on(row, report), is_named
    if waiting:
        epochs.decide(None)
    yield from ((epochs.count_on(each, report), False) for each in waiting)


class _Epochs:
    """Counts on the steps of a run that begin again in each epoch.

    The epoch of a row is the whole numbers under its `outer_keys`; a row without such a key is in the epoch of the row
    before. Two kinds of numbers are none of an epoch: those with parts of a whole, which are written beside steps
    through all epochs, and a count of the steps, which rose with each of the first steps, more often than three times.

    - An epoch is a later one if one of its numbers has risen, and the log did not have it before. Where the step falls
      or stays with it, it begins: its steps are raised so that the first follows the newest of the epoch before.
    - Any other change is a return to an earlier epoch, by a resume. The steps there are raised as before, and the
      epochs after it are forgotten.
    - A row with the step of the row before and without a signal of it is a part of that step, whatever its epoch.
    - A step that stays begins an epoch only if each epoch so far had one step, other than 0. Loops of one logged step
      and steps with several epochs each, as of PPO, look alike at first: it is the latter if the next other step is
      higher and its epoch is no later one. The rows with that step wait for it.
    """

    def __init__(self) -> None:
        self._epoch: _Epoch = ()  # of the newest row
        self._offsets = OrderedDict[_Epoch, tuple[int, int]]({(): (0, -1)})  # what is added to its steps; its newest
        self._counts: dict[str, float] = {}  # of the newest row
        self._step = -1  # the newest of the log's own steps
        self._signals: set[str] = set()  # of the rows with it
        self._rises = Counter[str]()  # of a number together with the step
        self._stayed: set[str] = set()  # the keys of numbers that stayed while the step rose
        self._parts: set[str] = set()  # the keys of numbers with parts of a whole
        self._begins: bool | None = None  # whether the steps begin again in each epoch, once it is known

    def is_other_step(self, row: LoggedRow) -> bool:
        """Whether a row has a step of its own that is not the one of the row before."""
        return row.step is not None and row.step != self._step

    def is_undecided(self, row: LoggedRow) -> bool:
        """Whether a row may begin an epoch, or may be another epoch of the same step."""
        return self._begins is None and not self._stayed and row.step == self._step and self._repeats_later(row)

    def decide(self, following: LoggedRow | None) -> None:
        """Decide about the rows of one step by the row that follows them."""
        is_higher = following is not None and following.step is not None and following.step > self._step
        self._begins = not is_higher or following is None or self._is_later(self._epoch_of(self._counts_of(following)))

    def count_on(self, row: LoggedRow, report: ReadReport) -> LoggedRow:
        """Return a row with the step that it has in the whole run."""
        own = row.step
        if own is None:
            return row
        counts = self._counts_of(row)
        epoch = self._epoch_of(counts)
        if _names(epoch) != _names(self._epoch):
            self._rename(epoch)
        is_later = self._is_later(epoch)
        if own == self._step and is_later and not (self._begins and self._repeats_later(row)):
            self._signals.update(row.signals)  # a part of the step before
            return row._replace(step=min(MAX_STEP, own + self._offsets[self._epoch][0]))
        begins = is_later and own < self._step if self._begins is None else self._begins
        offset, newest = self._return_to(epoch, is_later=is_later)
        if epoch not in self._offsets and begins and own + offset <= newest:
            report.add_epoch(row.place + 1)
            offset, self._begins = min(MAX_STEP, newest + 1) - own, True
        step = min(MAX_STEP, own + offset)
        self._offsets[epoch] = offset, step
        if len(self._offsets) > MAX_EPOCHS:
            self._offsets.popitem(last=False)
        self._signals = {*row.signals, *(self._signals if own == self._step else ())}
        self._learn(own, counts)
        self._epoch, self._counts, self._step = epoch, counts, own
        return row._replace(step=step)

    def _counts_of(self, row: LoggedRow) -> dict[str, float]:
        """Return the whole numbers of a row's epoch, or those of the rows before it."""
        keys = outer_keys(tuple(row.logged))
        if not keys:
            return self._counts
        own = {key: number(row.logged[key]) for key in keys}
        self._parts.update(key for key, count in own.items() if count is not None and count % 1 > 0.0)
        return self._counts | {key: count for key, count in own.items() if count is not None and count % 1 == 0.0}

    def _epoch_of(self, counts: Mapping[str, float]) -> _Epoch:
        return tuple(
            (key, count)
            for key, count in counts.items()
            if key not in self._parts and (key in self._stayed or self._rises[key] <= MOST_RISES)
        )

    def _is_later(self, epoch: _Epoch) -> bool:
        return (
            epoch not in self._offsets
            and _names(epoch) == _names(self._epoch)
            and any(count > before for (_, before), (_, count) in zip(self._epoch, epoch, strict=True))
        )

    def _repeats_later(self, row: LoggedRow) -> bool:
        """Whether a row has a signal of the step before, in a later epoch."""
        return not self._signals.isdisjoint(row.signals) and self._is_later(self._epoch_of(self._counts_of(row)))

    def _return_to(self, epoch: _Epoch, *, is_later: bool) -> tuple[int, int]:
        """Forget the epochs after one that is gone back to, and return what is added to its steps, and the newest."""
        if epoch in self._offsets:
            while next(reversed(self._offsets)) != epoch:
                self._offsets.popitem()
        elif not is_later:
            while self._offsets and next(reversed(self._offsets)) > epoch:
                self._offsets.popitem()
        return next(reversed(self._offsets.values()), (0, -1))

    def _rename(self, epoch: _Epoch) -> None:
        """Go on in an epoch that has other names of numbers."""
        self._offsets = OrderedDict({epoch: self._offsets[self._epoch]})
        self._epoch = epoch

    def _learn(self, own: int, counts: Mapping[str, float]) -> None:
        """Remember which numbers rise or stay while the step rises."""
        for key, before in self._counts.items() if own > self._step else ():
            if counts[key] > before:
                self._rises[key] += 1
            elif counts[key] == before and self._step > 0:
                self._stayed.add(key)


def _names(epoch: _Epoch) -> list[str]:
    return [name for name, _ in epoch]


def _logged_attempt(row: Row) -> float:
    """Return the attempt in a row, or minus infinity if the row has none; a mean of attempts at problems is none."""
    logged = number(row.get("attempt"))
    return logged if logged is not None and logged % 1 == 0 else -inf
