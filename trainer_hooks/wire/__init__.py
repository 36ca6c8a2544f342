"""The wire schema: what a trainer sends, what the collector answers, and how rank shards merge.

There is one schema with two encodings. Trainers send msgpack with arrays as raw little-endian bytes. People may send
the same fields as JSON, where arrays are base64 and non-finite numbers are "NaN", "Infinity" and "-Infinity".
Everything that crosses the border between ``trainer_hooks`` and ``monitor_server`` is in this package. It depends on no
transport, storage or detection.
"""

from trainer_hooks.wire.arrays import Array
from trainer_hooks.wire.config_secrets import HIDDEN, MAX_CONFIG_DEPTH, MAX_CONFIG_VALUES, hide_secrets
from trainer_hooks.wire.encoding import (
    JSON,
    MSGPACK,
    READABLE_VERSIONS,
    SCHEMA_VERSION,
    decode_batch,
    decode_receipt,
    decode_record,
    decode_response,
    encode,
    encode_json,
    merge,
    run_id,
    spell_non_finite,
    without_config,
)
from trainer_hooks.wire.fields import (
    EARLIEST_TIME,
    LARGEST_INTEGER,
    LONGEST_NAME_CHARS,
    MAX_RECORD_SIGNALS,
    find_largest_attempt,
    is_clean_name,
)
from trainer_hooks.wire.kinds import ALERT_KINDS, Severity
from trainer_hooks.wire.messages import (
    CAPABILITY_LEVELS,
    MAX_FORKS,
    RUN_ENDS,
    Action,
    ActionOutcome,
    ActionReport,
    ActionRequest,
    AlertNotice,
    Batch,
    Capability,
    ForkResult,
    LeftOut,
    Receipt,
    Record,
    Rejection,
    ReportedAction,
    RunEnd,
)
from trainer_hooks.wire.responses import RESPONSE_KINDS, Response, ResponseKind
from trainer_hooks.wire.summaries import Extreme, Histogram, Moments, Summary, merge_summaries

__all__ = [
    "ALERT_KINDS",
    "CAPABILITY_LEVELS",
    "EARLIEST_TIME",
    "HIDDEN",
    "JSON",
    "LARGEST_INTEGER",
    "LONGEST_NAME_CHARS",
    "MAX_CONFIG_DEPTH",
    "MAX_CONFIG_VALUES",
    "MAX_FORKS",
    "MAX_RECORD_SIGNALS",
    "MSGPACK",
    "READABLE_VERSIONS",
    "RESPONSE_KINDS",
    "RUN_ENDS",
    "SCHEMA_VERSION",
    "Action",
    "ActionOutcome",
    "ActionReport",
    "ActionRequest",
    "AlertNotice",
    "Array",
    "Batch",
    "Capability",
    "Extreme",
    "ForkResult",
    "Histogram",
    "LeftOut",
    "Moments",
    "Receipt",
    "Record",
    "Rejection",
    "ReportedAction",
    "Response",
    "ResponseKind",
    "RunEnd",
    "Severity",
    "Summary",
    "decode_batch",
    "decode_receipt",
    "decode_record",
    "decode_response",
    "encode",
    "encode_json",
    "find_largest_attempt",
    "hide_secrets",
    "is_clean_name",
    "merge",
    "merge_summaries",
    "run_id",
    "spell_non_finite",
    "without_config",
]
