"""Encodes batches: records, with the run, attempt and rank that they belong to."""

from collections.abc import Sequence

import msgspec

from trainer_hooks.delivery import EncodedRecord
from trainer_hooks.recording.schema_versions import FIRST_VERSION
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import CAPABILITY_LEVELS, Batch, Capability, RunEnd, encode

__all__ = ["BatchBuilder"]


class BatchBuilder:
    """Encodes batches of one process.

    Args:
        settings: The run, attempt and rank of the records.
        config: The run's configuration; rank 0 sends it.
        source: The program that produced the records, such as ``"trl 1.16.0"``.

    Attributes:
        end: How the run ended; the last batch says so.
    """

    def __init__(
        self, settings: ConnectionSettings, *, config: dict[str, object] | None = None, source: str = ""
    ) -> None:
        self.end: RunEnd = "finished"
        self._settings = settings
        # A configuration, even if it is empty, informs the collector that the process has started.
        self._config = config or {} if settings.rank == 0 else None
        self._source = source
        self._attempt = settings.attempt
        self._capability: Capability = "L1"
        self._is_first = True

    def encode(self, records: Sequence[EncodedRecord], *, is_last: bool = False) -> bytes:
        """Encode a batch that may wait on disk; the first has the configuration, in case another process sends it."""
        if records:
            self._attempt = records[0].attempt
        # The level only rises, because a probe runs at some steps only.
        levels = [self._capability, *(record.capability for record in records)]
        self._capability = max(levels, key=CAPABILITY_LEVELS.index)
        config = self._config if self._is_first else None
        self._is_first = False
        return self._encode(records, config=config, end=self.end if is_last else None)

    def encode_heartbeat(self, *, is_first: bool) -> bytes:
        """Encode a batch without records; the first one has the configuration."""
        return self._encode([], config=self._config if is_first else None, end=None)

    def _encode(
        self, records: Sequence[EncodedRecord], *, config: dict[str, object] | None, end: RunEnd | None
    ) -> bytes:
        settings = self._settings
        return encode(
            Batch(
                schema_version=max((record.schema_version for record in records), default=FIRST_VERSION),
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
