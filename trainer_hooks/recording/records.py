"""Builds the wire record of a step: reduces its token arrays to signals, samples responses, and encodes both.

This runs in the batch processor's thread. The training thread only copies; arrays on an accelerator were reduced there.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec

from trainer_hooks.arrays.copies import Copies
from trainer_hooks.delivery import DropCounter, EncodedRecord
from trainer_hooks.delivery.drop_counter import DROPPED_RECORD_REASONS, Reason
from trainer_hooks.errors import RolloutsError
from trainer_hooks.recording.health import RunHealth
from trainer_hooks.recording.inputs import Changes, Tokens
from trainer_hooks.recording.responses.sampler import NO_RESPONSES, ResponseSampler, SampledResponses
from trainer_hooks.recording.responses.selection import Candidates, SamplingInterval, offer_all
from trainer_hooks.recording.schema_versions import version_of_record
from trainer_hooks.recording.usable_fields import UsableFields
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals import FamiliarTokens, Reduced, finish_summaries, reduce
from trainer_hooks.signals.families.paired import NAMES as PAIRED_NAMES
from trainer_hooks.text_safety import describe_object
from trainer_hooks.wire import LARGEST_INTEGER, ActionReport, Capability, Extreme, Moments, Record, Summary, encode

__all__ = ["Measurement", "RecordBuilder", "whole_step"]

# A number and its place in a dictionary, without its name.
NUMBER_BYTES = 60
SIGNALS_BY_REASON: dict[Reason, str] = {
    **{reason: f"hooks/dropped/{reason}" for reason in DROPPED_RECORD_REASONS},
    "internal_errors": "hooks/internal_errors",
    "rollouts": "hooks/rejected_rollouts",
    "responses": "hooks/rejected_responses",
    "scalars": "hooks/rejected_scalars",
    "unspooled": "hooks/unspooled_records",
}
# Those above are totals, which do not tell at which step a rank has lost its rollouts.
LOST_ROLLOUTS = "hooks/lost_rollouts"


class Measurement(msgspec.Struct, frozen=True):
    """The copied arguments of one `log_step`.

    A msgspec struct, because the training thread makes it, and a dataclass takes three times as long.

    Attributes:
        has_rollouts: Whether rollouts were given; ``tokens`` is None also where they could not be read.
    """

    step: int
    time: float
    numbers: dict[str, float]
    tokens: Tokens | None
    changes: Changes = ()
    has_rollouts: bool = False
    blocking_seconds: float | None = None
    policy_version: int | None = None
    data_version: str | None = None
    actions: Sequence[ActionReport] = ()

    @property
    def nbytes(self) -> int:
        """About how many bytes this holds."""
        nbytes = NUMBER_BYTES * len(self.numbers) + _length_of_names(self.numbers)
        if self.data_version is not None:
            nbytes += sys.getsizeof(self.data_version)
        return nbytes + (self.tokens.nbytes if self.tokens else 0)


def whole_step(step: float | str) -> int:
    """Return the number of a step.

    Raises:
        ValueError: If it is not whole, or the collector would refuse it.
    """
    try:
        number = int(step)
    except (OverflowError, TypeError, ValueError):  # infinite, NaN, or no number
        number = None
    if number is None or (number != step and not isinstance(step, str)):
        raise ValueError(f"step must be a whole number, got {describe_object(step)}")
    _check_step(number)
    return number


def _check_step(step: int) -> None:
    if not 0 <= step <= LARGEST_INTEGER:
        raise ValueError(f"step must lie in 0 to 2**53, got {describe_object(step)}")


class RecordBuilder:
    """Encodes measurements as wire records.

    Args:
        settings: The attempt and rank of the records, and how many responses are sampled.
        drops: Counts records and values that are left out; the counts are signals themselves.
        health: Receives the attempt and step that the process has reached.
        redact: Receives each text of a sampled response and returns what may leave the process.
        spool_bytes: Returns the bytes on disk that wait for the collector, None without a spool.
        first_seq: Sequence number of the first record; higher in every later process, which may share the attempt.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        drops: DropCounter,
        health: RunHealth,
        *,
        redact: Callable[[str], str] | None = None,
        spool_bytes: Callable[[], int | None] = lambda: None,
        first_seq: int = 0,
    ) -> None:
        self._drops = drops
        self._fields = UsableFields(drops)
        self._health = health
        self._sampler = ResponseSampler(
            count=settings.responses,
            max_bytes=settings.response_bytes,
            texts=settings.texts,
            redact=redact,
            on_loss=lambda detail: drops.count("responses", detail),
        )
        self._interval = SamplingInterval(settings.responses, settings.response_seconds)
        self._familiar = FamiliarTokens()
        self._spool_bytes = spool_bytes
        self._rank = settings.rank
        self._attempt = settings.attempt
        self._step = 0
        self._seq = first_seq

    def encode(self, item: Measurement) -> EncodedRecord:
        """Reduce and encode one measurement; token arrays that cannot be reduced cost only themselves."""
        if not isinstance(item.tokens, Copies):
            return self._encode(item, item.tokens)
        try:
            # No other code reads the copies, and their contents have been encoded when this returns.
            return self._encode(item, self._read_rollouts(item.tokens))
        finally:
            item.tokens.release()

    def _encode(self, item: Measurement, rollouts: Rollouts | Reduced | None) -> EncodedRecord:
        attempt, seq = self._advance(item.step)
        numbers = item.numbers
        bad_values = float(len(numbers) - sum(map(math.isfinite, numbers.values())))
        # An adapter counts those of the loss, whose tokens it does not have.
        counted = numbers.get("finite/bad_values", 0.0)
        bad_values += counted if math.isfinite(counted) else 0.0
        summaries: dict[str, Summary] = {"finite/bad_values": _total(bad_values)}
        changes = item.changes
        try:
            summaries |= finish_summaries(changes)
        except RolloutsError as error:
            self._drops.count_error(error)
            changes = ()
        reduced, signals = self._reduce(rollouts, item.time)
        if item.has_rollouts and not signals:
            summaries[LOST_ROLLOUTS] = _total(1.0)
        bad = signals.pop("finite/bad_values", None)
        if isinstance(bad, Moments):
            summaries["finite/bad_values"] = _total(bad_values + bad.sum)
        summaries |= signals
        summaries |= self._describe_hooks(item)
        sampled = self._sample_responses(reduced, f"{attempt} {self._rank} {seq}")
        record = Record(
            step=item.step,
            seq=seq,
            time=item.time,
            policy_version=self._fields.policy_version(item.policy_version),
            data_version=self._fields.data_version(item.data_version),
            # A signal is sent once. The summary merges over ranks and therefore takes precedence over a scalar.
            scalars=self._fields.scalars(numbers, but=summaries),
            summaries=summaries,
            actions=list(item.actions),
            responses=sampled.encoded,
        )
        version = max(version_of_record(record), sampled.schema_version)
        is_paired = "entropy/paired_delta" in numbers or any(name in PAIRED_NAMES for name, _ in changes)
        capability: Capability = "L4" if is_paired else "L1" if reduced is None else reduced.capability
        return EncodedRecord(attempt, encode(record), version, capability)

    def _advance(self, step: int) -> tuple[int, int]:
        """Return the attempt and the sequence number of the next record; a lower step starts a new attempt.

        Raises:
            ValueError: If the collector would refuse the step; it then does not count as reached.
        """
        _check_step(step)
        if step < self._step:
            self._attempt += 1
        self._step = step
        self._health.advance(self._attempt, step)
        self._seq += 1
        return self._attempt, self._seq - 1

    def _read_rollouts(self, copies: Copies) -> Rollouts | None:
        try:
            return Rollouts(**{**copies.arguments, "copy": False, "check": False})
        except (RolloutsError, TypeError) as error:
            self._drops.count_rollouts(error)
        except Exception as error:  # noqa: BLE001 - the scalars still go out
            self._drops.count_error(error)
        return None

    def _reduce(self, rollouts: Rollouts | Reduced | None, now: float) -> tuple[Reduced | None, dict[str, Summary]]:
        """Reduce rollouts to signals; return None and no signals if there are no rollouts or they are refused."""
        if rollouts is None:
            return None, {}
        reduced: Reduced | None = None
        try:
            if isinstance(rollouts, Reduced):
                reduced = rollouts
            else:
                more = [offer_all] if self._interval.is_due(now) else []
                reduced = reduce(rollouts, *more, familiar=self._familiar).fetch()
            return reduced, reduced.finish()
        except RolloutsError as error:
            self._drops.count_rollouts(error)
            reduced = None
        except Exception as error:  # noqa: BLE001 - the scalars still go out
            self._drops.count_error(error)
        return reduced, {}

    def _describe_hooks(self, item: Measurement) -> dict[str, Summary]:
        """Summarise the SDK's cost and losses, as totals of this process, so that a lost record loses no count."""
        summaries: dict[str, Summary] = {"hooks/dropped_records": _total(self._drops.dropped_records)}
        if item.blocking_seconds is not None:
            summaries["hooks/blocking_seconds"] = Extreme(extreme=item.blocking_seconds)
        spooled = self._spool_bytes()
        if spooled is not None:
            summaries["hooks/spool_bytes"] = _total(spooled)
        for reason, name in SIGNALS_BY_REASON.items():
            if self._drops[reason]:
                summaries[name] = _total(self._drops[reason])
        return summaries

    def _sample_responses(self, reduced: Reduced | None, seed: str) -> SampledResponses:
        """Sample a few responses; where that fails, the signals still go out."""
        try:
            for pending in reduced.extra if reduced else ():
                found: Candidates = pending.finish(*pending.numbers)
                return self._sampler.sample(found.tokens, seed=seed, drawable=found.drawable)
        except Exception as error:  # noqa: BLE001 - the record still goes out
            self._drops.count_error(error)
        return NO_RESPONSES


def _total(value: float) -> Moments:
    return Moments(count=1, sum=float(value), statistic="sum")


def _length_of_names(names: Iterable[object]) -> int:
    try:
        return len("".join(names))  # type: ignore[arg-type]  # half the time of a sum of lengths
    except TypeError:  # a name may be any object
        return sum(map(sys.getsizeof, names))
