"""The wire schema: what a trainer sends, what the collector answers, and how rank shards merge.

One schema, two encodings. Trainers send msgpack with arrays as raw little-endian bytes; people send the same
fields as JSON, where arrays are base64 and non-finite numbers are "NaN", "Infinity" and "-Infinity". Everything
that crosses the border between ``trainer_hooks`` and ``monitor_server`` is in this module; it knows nothing of
transport, storage or detection.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CAPABILITY_LEVELS",
    "JSON",
    "MSGPACK",
    "SCHEMA_VERSION",
    "Action",
    "ActionOutcome",
    "ActionReport",
    "AlertNotice",
    "Array",
    "Batch",
    "Extreme",
    "Histogram",
    "Moments",
    "Receipt",
    "Record",
    "Rejection",
    "Summary",
    "decode_batch",
    "decode_receipt",
    "decode_record",
    "encode",
    "encode_json",
    "merge",
    "run_id",
    "spell_non_finite",
]

SCHEMA_VERSION = 1
MSGPACK = "application/msgpack"
JSON = "application/json"
LARGEST_EXPONENT = 709.0  # e to a little more overflows float64, which Python raises instead of giving inf
CAPABILITY_LEVELS = ("L0", "L1", "L2", "L3", "L4")

Capability = Literal["L0", "L1", "L2", "L3", "L4"]
RunEnd = Literal["finished", "stopped"]
Action = Literal["notify", "checkpoint", "skip_update", "stop", "rollback", "enable_llds"]
ActionOutcome = Literal["taken", "dry_run", "refused"]


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common rules of all wire structs: immutable, named fields, unknown fields refused."""


class Array(_Wire, frozen=True):
    """A numeric array as raw little-endian bytes in C order; base64 in JSON."""

    dtype: Literal["float16", "float32", "float64", "int32", "int64", "uint8", "bool"]
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> Self:
        """Copy a numpy array into wire form."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return cls(dtype=array.dtype.name, shape=array.shape, data=little.tobytes())  # type: ignore[arg-type]

    def to_numpy(self) -> NDArray[Any]:
        """Give the array back, read-only.

        Raises:
            ValueError: If the bytes do not fill the shape.
        """
        dtype = np.dtype(self.dtype).newbyteorder("<")
        expected = math.prod(self.shape) * dtype.itemsize
        if any(size < 0 for size in self.shape) or len(self.data) != expected:
            raise ValueError(
                f"data must hold {expected} bytes for {self.dtype}{list(self.shape)}, got {len(self.data)} bytes"
            )
        return np.frombuffer(self.data, dtype=dtype).reshape(self.shape)


class Moments(_Wire, tag="moments", tag_field="type", frozen=True):
    """Count, sum and sum of squares of a quantity on one rank; ``statistic`` names the number shown.

    mean = Σx/n, std = √(Σx²/n − (Σx/n)²), variance = std², ess_frac = (Σx)² / (n·Σx²), sum = Σx.
    Only finite values are summed; non-finite ones are counted in ``finite/bad_values``.
    """

    count: float
    sum: float
    sum_squares: float = 0.0
    statistic: Literal["mean", "std", "variance", "ess_frac", "sum"] = "mean"

    def merged(self, other: "Moments") -> "Moments":
        """Add the same quantity measured on another rank."""
        return msgspec.structs.replace(
            self,
            count=self.count + other.count,
            sum=self.sum + other.sum,
            sum_squares=self.sum_squares + other.sum_squares,
        )

    def value(self) -> float | None:
        """Give the statistic, or None where nothing was observed."""
        if self.statistic == "sum":
            return self.sum
        if not self.count > 0:
            return None
        mean = self.sum / self.count
        if self.statistic == "mean":
            return mean
        if self.statistic == "ess_frac":
            return self.sum * self.sum / (self.count * self.sum_squares) if self.sum_squares > 0 else None
        variance = max(0.0, self.sum_squares / self.count - mean * mean)
        return variance if self.statistic == "variance" else math.sqrt(variance)


class Extreme(_Wire, tag="extreme", tag_field="type", frozen=True):
    """A largest or smallest value."""

    extreme: float
    statistic: Literal["max", "min"] = "max"

    def merged(self, other: "Extreme") -> "Extreme":
        """Keep the more extreme of the two; NaN wins, so that it is not lost."""
        if math.isnan(self.extreme) or math.isnan(other.extreme):
            return msgspec.structs.replace(self, extreme=math.nan)
        pick = max if self.statistic == "max" else min
        return msgspec.structs.replace(self, extreme=pick(self.extreme, other.extreme))

    def value(self) -> float | None:
        """Give the extreme value."""
        return self.extreme


class Histogram(_Wire, tag="histogram", tag_field="type", frozen=True):
    """Counts in equal bins over [low, high], values beyond the ends in the end bins; shows one quantile.

    ``scale="exp"`` says that the bins hold logarithms and the quantile is shown exponentiated. The quantile is
    interpolated inside its bin, so it is exact to one bin width, (high − low) / number of bins.
    """

    low: float
    high: float
    counts: Array
    quantile: float
    scale: Literal["linear", "exp"] = "linear"

    def merged(self, other: "Histogram") -> "Histogram":
        """Add the counts of another rank.

        Raises:
            ValueError: If the bins differ.
        """
        if (self.low, self.high, self.counts.shape) != (other.low, other.high, other.counts.shape):
            raise ValueError(
                f"histograms merge over equal bins only, got {self.low, self.high, self.counts.shape} "
                f"and {other.low, other.high, other.counts.shape}"
            )
        counts = self.counts.to_numpy().astype(np.int64) + other.counts.to_numpy()
        return msgspec.structs.replace(self, counts=Array.from_numpy(counts))

    def value(self) -> float | None:
        """Give the quantile, or None where nothing was observed."""
        counts = self.counts.to_numpy().astype(np.float64)
        total = counts.sum()
        if not total > 0:
            return None
        cumulative = np.cumsum(counts)
        target = self.quantile * total
        index = int(np.searchsorted(cumulative, target, side="left").clip(0, len(counts) - 1))
        below = cumulative[index] - counts[index]
        inside = (target - below) / counts[index] if counts[index] > 0 else 0.0
        position = self.low + (index + inside) * (self.high - self.low) / len(counts)
        if self.scale == "linear":
            return float(position)
        return math.exp(position) if position < LARGEST_EXPONENT else math.inf


Summary = Moments | Extreme | Histogram


class ActionReport(_Wire, frozen=True):
    """What a trainer did about an alert, would have done (``dry_run``), or could not do (``refused``)."""

    action: Action
    alert_id: str
    outcome: ActionOutcome
    reason: str
    detail: str = ""


class Record(_Wire, frozen=True):
    """What one rank measured at one optimiser step.

    ``scalars`` hold one number for the whole step (rank 0 speaks for all); ``summaries`` hold this rank's share
    and are merged over ranks. ``seq`` counts a rank's records within an attempt, from 0; left out, it is the step.
    """

    step: int
    seq: int | None = None
    time: float | None = None
    policy_version: int | None = None
    data_version: str | None = None
    scalars: dict[str, float] = {}
    summaries: dict[str, Summary] = {}
    actions: list[ActionReport] = []


class Batch(_Wire, frozen=True):
    """A rank's records, with the run they belong to. Records stay raw until each is validated alone."""

    schema_version: int
    run: str
    project: str = "default"
    attempt: int = 1
    rank: int = 0
    world_size: int = 1
    capability: Capability = "L1"
    source: str = ""
    config: dict[str, Any] | None = None
    end: RunEnd | None = None
    records: list[msgspec.Raw] = []


class Rejection(_Wire, frozen=True):
    """One record that was refused: its place in the batch, and why."""

    index: int
    error: str
    detail: str


class AlertNotice(_Wire, frozen=True):
    """An alert that is firing on the run, as told to the trainer."""

    id: str
    kind: str
    severity: Literal["info", "warning", "critical"]
    opened_step: int
    summary: str


class Receipt(_Wire, frozen=True):
    """The collector's answer, given only after what it accepted is committed."""

    run_id: str
    accepted: int
    duplicates: int = 0
    rejected: list[Rejection] = []
    phase: str = "unknown"
    alerts: list[AlertNotice] = []


def run_id(project: str, run: str) -> str:
    """Give the id of a run: the same for every rank, restart and collector."""
    return hashlib.blake2b(f"{project}\0{run}".encode(), digest_size=8).hexdigest()


def encode(message: msgspec.Struct) -> bytes:
    """Encode a wire struct as msgpack."""
    return msgspec.msgpack.encode(message)


def encode_json(message: msgspec.Struct) -> bytes:
    """Encode a wire struct as JSON, non-finite numbers as strings."""
    return json.dumps(spell_non_finite(msgspec.to_builtins(message)), allow_nan=False).encode()


def decode_batch(body: bytes, media_type: str = MSGPACK) -> Batch:
    """Decode a batch's envelope; its records stay raw for `decode_record`.

    Raises:
        msgspec.DecodeError: If the body is no msgpack or JSON.
        msgspec.ValidationError: If a field is unknown, missing or of the wrong type; the message locates it.
    """
    if media_type != JSON:
        return msgspec.msgpack.decode(body, type=Batch)
    try:
        loaded = json.loads(body)
    except ValueError as error:
        raise msgspec.DecodeError(f"JSON is malformed: {error}") from error
    if isinstance(loaded, dict) and isinstance(loaded.get("records"), list):
        loaded["records"] = [msgspec.Raw(json.dumps(spell_non_finite(record)).encode()) for record in loaded["records"]]
    return msgspec.convert(loaded, Batch, strict=False)


def decode_record(raw: msgspec.Raw | bytes, media_type: str = MSGPACK) -> Record:
    """Decode one record of a batch that came in the same media type.

    Raises:
        msgspec.ValidationError: If a field is unknown, missing or of the wrong type; the message locates it.
    """
    if media_type == JSON:
        return msgspec.json.decode(raw, type=Record, strict=False)
    return msgspec.msgpack.decode(raw, type=Record)


def decode_receipt(body: bytes) -> Receipt:
    """Decode the collector's msgpack answer."""
    return msgspec.msgpack.decode(body, type=Receipt)


def merge(records: Iterable[Record]) -> dict[str, float]:
    """Give a step's signals from the records of its ranks, in the order given.

    Summaries merge exactly; of a scalar sent more than once the last record's value stands, so give records in
    the order rank descending, then sequence number ascending, for rank 0 to speak last. A signal that nobody
    observed is absent.
    """
    scalars: dict[str, float] = {}
    summaries: dict[str, Summary] = {}
    for record in records:
        scalars.update(record.scalars)
        for name, summary in record.summaries.items():
            held = summaries.get(name)
            summaries[name] = summary if held is None else held.merged(summary)  # type: ignore[arg-type]
    values = {name: summary.value() for name, summary in summaries.items()}
    return scalars | {name: value for name, value in values.items() if value is not None}


def spell_non_finite(value: Any) -> Any:  # noqa: ANN401 - walks any JSON tree
    """Give a JSON tree with its non-finite numbers as "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: spell_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell_non_finite(item) for item in value]
    return value
