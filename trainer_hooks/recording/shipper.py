"""Turns measurements into wire records and batches, and reads receipts; runs in the threads of `delivery`.

Reduction of token arrays happens here and not in the training thread, which only pays for a copy; those on a device
come reduced.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from trainer_hooks.arrays.copies import Copies
from trainer_hooks.delivery import Packed, Tally
from trainer_hooks.delivery.tally import LOST_RECORDS, Reason
from trainer_hooks.errors import RolloutsError
from trainer_hooks.recording.candidates import Candidates, Pace, everything
from trainer_hooks.recording.inputs import Changes, Tokens
from trainer_hooks.recording.responses import ResponseSampler
from trainer_hooks.recording.verdict import Verdict
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.signals import Reduced, finished, reduce
from trainer_hooks.wire import (
    CAPABILITY_LEVELS,
    ActionReport,
    AlertNotice,
    Batch,
    Capability,
    Extreme,
    Moments,
    Receipt,
    Record,
    RunEnd,
    Summary,
    decode_batch,
    encode,
)

__all__ = ["Measurement", "RecordShipper"]

# The lowest that can read a record without, and with, actions or sampled responses.
PLAIN_VERSION, FULL_VERSION = 1, 2

REPORTED_REASONS: dict[Reason, str] = {
    **{reason: f"hooks/dropped/{reason}" for reason in LOST_RECORDS},
    "internal_errors": "hooks/internal_errors",
    "rollouts": "hooks/rejected_rollouts",
    "responses": "hooks/rejected_responses",
    "scalars": "hooks/rejected_scalars",
    "unspooled": "hooks/unspooled_records",
}


class Measurement(msgspec.Struct, frozen=True):
    """What one `log_step` handed over, copied.

    A msgspec struct because the training thread waits for its making, a third of a dataclass's.
    """

    step: int
    time: float
    numbers: dict[str, float]
    tokens: Tokens | None
    changes: Changes = ()
    blocking_seconds: float | None = None
    policy_version: int | None = None
    data_version: str | None = None
    actions: Sequence[ActionReport] = ()


class RecordShipper:
    """Packs measurements and seals batches; what the collector says of them is the `Verdict`'s.

    Args:
        settings: Whose records these are.
        tally: Losses, which are signals themselves.
        config: The run's configuration; rank 0 sends it.
        source: What produced the records, such as ``"trl 1.16.0"``.
        on_alert: Each called once for each alert and severity, in the sender's thread.
        redact: Given each text of a sampled response, gives what may leave.
        spool_bytes: Gives the bytes on disk that wait for the collector, None without a spool.
        first_seq: Sequence number of the first record; higher in every later process, which may share the attempt.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        tally: Tally,
        *,
        config: dict[str, object] | None = None,
        source: str = "",
        on_alert: Sequence[Callable[[AlertNotice], object]] = (),
        redact: Callable[[str], str] | None = None,
        spool_bytes: Callable[[], int | None] = lambda: None,
        first_seq: int = 0,
    ) -> None:
        self.verdict = Verdict(settings.attempt, tally, on_alert)
        self.end: RunEnd = "finished"
        self._settings = settings
        self._tally = tally
        # An empty one, too, tells the collector that the process has started.
        self._config = config or {} if settings.rank == 0 else None
        self._has_sealed = False
        self._source = source
        self._sampler = ResponseSampler(
            count=settings.responses,
            max_bytes=settings.response_bytes,
            texts=settings.texts,
            redact=redact,
            on_loss=lambda detail: tally.count("responses", detail),
        )
        self._pace = Pace(settings.responses, settings.response_seconds)
        self._spool_bytes = spool_bytes
        self._attempt = self._newest_attempt = settings.attempt
        self._step = 0
        self._seq = first_seq
        self._capability: Capability = "L1"

    def pack(self, item: Measurement) -> Packed:
        """Reduce and encode one measurement; token arrays that cannot be reduced cost only themselves."""
        if not isinstance(item.tokens, Copies):
            return self._packed(item, item.tokens)
        try:
            # The copies are nobody else's, and all that is made of them is bytes by the end.
            return self._packed(item, self._read(item.tokens))
        finally:
            item.tokens.release()

    def _place(self, step: int) -> tuple[int, int]:
        """Give the attempt and the sequence number of the next record, which is at this step."""
        if step < self._step:
            self._newest_attempt += 1
        self._step = step
        self.verdict.reach(self._newest_attempt, step)
        self._seq += 1
        return self._newest_attempt, self._seq - 1

    def _read(self, copies: Copies) -> Rollouts | None:
        try:
            return Rollouts(**{**copies.arguments, "copy": False, "check": False})
        except (RolloutsError, TypeError) as error:
            self._refuse(error)
            return None

    def _refuse(self, error: Exception) -> None:
        self._tally.count("rollouts", f"rollouts were left out: {error}")

    def _packed(self, item: Measurement, rollouts: Rollouts | Reduced | None) -> Packed:
        attempt, seq = self._place(item.step)
        numbers = item.numbers
        bad_values = float(len(numbers) - sum(map(math.isfinite, numbers.values())))
        summaries: dict[str, Summary] = {"finite/bad_values": Moments(count=1, sum=bad_values, statistic="sum")}
        changes = item.changes
        try:
            summaries |= finished(changes)
        except RolloutsError as error:
            self._refuse(error)
            changes = ()
        reduced: Reduced | None = None
        if rollouts is not None:
            try:
                reduced = rollouts if isinstance(rollouts, Reduced) else self._reduced(rollouts, item.time)
                signals = reduced.finished()
            except RolloutsError as error:
                self._refuse(error)
                reduced = None
            except Exception as error:  # noqa: BLE001 - the scalars still go out
                self._tally.swallow(error)
            else:
                bad = signals.pop("finite/bad_values", None)
                if isinstance(bad, Moments):
                    summaries["finite/bad_values"] = Moments(count=1, sum=bad_values + bad.sum, statistic="sum")
                summaries |= signals
        summaries |= self._hooks(item)
        self._note_capability(is_paired=bool(changes) or "entropy/paired_delta" in numbers, reduced=reduced)
        record = Record(
            step=item.step,
            seq=seq,
            time=item.time,
            policy_version=None if item.policy_version is None else int(item.policy_version),
            data_version=None if item.data_version is None else str(item.data_version),
            # A signal is one or the other; the summary merges over ranks, and so it says more.
            scalars={str(name): value for name, value in numbers.items() if name not in summaries},
            summaries=summaries,
            actions=list(item.actions),
            responses=self._sampled(reduced, f"{attempt} {self._settings.rank} {seq}"),
        )
        is_plain = not record.responses and not record.actions
        return Packed(attempt, encode(record), PLAIN_VERSION if is_plain else FULL_VERSION)

    def _reduced(self, rollouts: Rollouts, now: float) -> Reduced:
        return reduce(rollouts, *([everything] if self._pace.is_due(now) else [])).fetched()

    def seal(self, records: Sequence[Packed], *, last: bool = False) -> bytes:
        """Encode a batch that may wait on disk; the first has the configuration, in case another process sends it."""
        if records:
            self._attempt = records[0].attempt
        config = None if self._has_sealed else self._config
        self._has_sealed = True
        return self._batch(records, config=config, end=self.end if last else None)

    def sign_of_life(self, *, is_first: bool) -> bytes:
        """Encode a batch without records; the first one has the configuration."""
        return self._batch([], config=self._config if is_first else None)

    def _batch(
        self, records: Sequence[Packed], *, config: dict[str, object] | None, end: RunEnd | None = None
    ) -> bytes:
        settings = self._settings
        return encode(
            Batch(
                schema_version=max((record.schema_version for record in records), default=PLAIN_VERSION),
                run=settings.run,
                project=settings.project,
                attempt=self._attempt,
                rank=settings.rank,
                world_size=settings.world_size,
                capability=self._capability,
                source=self._source,
                config=config,
                end=end,
                records=[msgspec.Raw(record.body) for record in records],
            )
        )

    def receive(self, receipt: Receipt, body: bytes) -> None:
        """Take the collector's answer to an encoded batch."""
        if receipt.refused_responses:
            self._tally.count(
                "responses", "the collector refused sampled responses; its log says why", by=receipt.refused_responses
            )
        self.verdict.hear(receipt, decode_batch(body).attempt)

    def _hooks(self, item: Measurement) -> dict[str, Summary]:
        """Give our own cost and losses; totals of this process, so that a lost record loses no count."""
        lost = Moments(count=1, sum=float(self._tally.lost_records), statistic="sum")
        summaries: dict[str, Summary] = {"hooks/dropped_records": lost}
        if item.blocking_seconds is not None:
            summaries["hooks/blocking_seconds"] = Extreme(extreme=item.blocking_seconds)
        spooled = self._spool_bytes()
        if spooled is not None:
            summaries["hooks/spool_bytes"] = Moments(count=1, sum=float(spooled), statistic="sum")
        for reason, name in REPORTED_REASONS.items():
            if self._tally[reason]:
                summaries[name] = Moments(count=1, sum=float(self._tally[reason]), statistic="sum")
        return summaries

    def _sampled(self, reduced: Reduced | None, seed: str) -> list[msgspec.Raw]:
        """Sample a few responses; where that fails, the signals still go out."""
        try:
            for asked in reduced.extra if reduced else ():
                found: Candidates = asked.finish(*asked.numbers)
                return self._sampler.sample(found.tokens, seed=seed, ordinary=found.ordinary)
        except Exception as error:  # noqa: BLE001 - the record still goes out
            self._tally.swallow(error)
        return []

    def _note_capability(self, *, is_paired: bool, reduced: Reduced | None) -> None:
        """Raise the level announced to what was captured; it never falls, as a probe runs at some steps only."""
        seen: Capability = "L1"
        if is_paired:
            seen = "L4"
        elif reduced is not None:
            seen = reduced.capability
        self._capability = max(self._capability, seen, key=CAPABILITY_LEVELS.index)
