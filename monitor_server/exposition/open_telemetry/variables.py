"""Checks the standard variables OTEL_* at the start, because OpenTelemetry's SDK limits few of them.

The SDK replaces some unreadable values by its own without an error, and accepts others unchanged: an interval of 0 ms
would export without end.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from monitor_server.errors import StartupError
from monitor_server.text_safety.printable import printable

__all__ = ["METRIC_INTERVAL_MS", "check_variables"]

METRIC_INTERVAL_MS: Final = 60_000  # the value of OpenTelemetry's specification
QUEUE_SIZE: Final = 2_048  # the value of OpenTelemetry's specification
BATCH_SIZE: Final = 512  # the value of OpenTelemetry's specification
HOUR_MS: Final = 3_600_000

WHOLE: Final = {
    "OTEL_METRIC_EXPORT_INTERVAL": (10, HOUR_MS, "milliseconds"),
    "OTEL_BSP_SCHEDULE_DELAY": (10, HOUR_MS, "milliseconds"),
    "OTEL_BSP_EXPORT_TIMEOUT": (1, HOUR_MS, "milliseconds"),
    "OTEL_BSP_MAX_QUEUE_SIZE": (1, 100_000, "spans"),
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": (1, 100_000, "spans"),
}
LIMITS: Final = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
)
MOST_OF_LIMITS: Final = 100_000
EXPORTER: Final = "OTEL_EXPORTER_OTLP_"
SIGNALS: Final = ("", "TRACES_", "METRICS_")
LONGEST_TIMEOUT_SECONDS: Final = 600
RATIO_SAMPLERS: Final = frozenset({"traceidratio", "parentbased_traceidratio"})
CHOICES: Final = {
    "OTEL_SDK_DISABLED": {"true", "false"},
    "OTEL_TRACES_EXPORTER": {"otlp", "none"},
    "OTEL_METRICS_EXPORTER": {"otlp", "none"},
    "OTEL_TRACES_SAMPLER": RATIO_SAMPLERS
    | {"always_on", "always_off", "parentbased_always_on", "parentbased_always_off"},
    # The counters are those of Prometheus, which add up from the start of the process.
    f"{EXPORTER}METRICS_TEMPORALITY_PREFERENCE": {"cumulative"},
    **{f"{EXPORTER}{signal}COMPRESSION": {"none", "gzip", "deflate"} for signal in SIGNALS},
    **{f"{EXPORTER}{signal}PROTOCOL": {"http/protobuf"} for signal in SIGNALS},
}


def check_variables(variable: Callable[[str], str | None]) -> None:
    """Check the values of the variables. An empty one counts as not set, unless the SDK cannot read it.

    Args:
        variable: Returns an environment variable.

    Raises:
        StartupError: If one cannot be used. The message names it, and shows no address, which may contain a password.
    """

    def value_of(name: str) -> str | None:
        return (variable(name) or "").strip() or None

    sizes = {name: _whole(name, value_of(name), *bounds) for name, bounds in WHOLE.items()}
    queue = sizes["OTEL_BSP_MAX_QUEUE_SIZE"] or QUEUE_SIZE
    batch = sizes["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"] or BATCH_SIZE
    if batch > queue:
        raise StartupError(
            f"OTEL_BSP_MAX_EXPORT_BATCH_SIZE ({batch}) must be at most OTEL_BSP_MAX_QUEUE_SIZE ({queue}); set both"
        )
    for name in LIMITS:
        text = variable(name)
        if text is not None and text.strip().lower() != "unset":
            _whole(name, text, 0, MOST_OF_LIMITS, "or the word unset")
    for name, choices in CHOICES.items():
        text = value_of(name)
        if text is not None and text.lower() not in choices:
            raise _wrong(name, f"one of {', '.join(sorted(choices))}", text)
    for signal in SIGNALS:
        for kind in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
            _check_file(f"{EXPORTER}{signal}{kind}", value_of(f"{EXPORTER}{signal}{kind}"))
        _number(
            f"{EXPORTER}{signal}TIMEOUT", value_of(f"{EXPORTER}{signal}TIMEOUT"), LONGEST_TIMEOUT_SECONDS, "seconds"
        )
        _check_address(f"{EXPORTER}{signal}ENDPOINT", value_of(f"{EXPORTER}{signal}ENDPOINT"))
    if (value_of("OTEL_TRACES_SAMPLER") or "").lower() in RATIO_SAMPLERS:
        _number("OTEL_TRACES_SAMPLER_ARG", value_of("OTEL_TRACES_SAMPLER_ARG"), 1, "as a share of all traces")


def _whole(name: str, text: str | None, low: int, high: int, unit: str) -> int | None:
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise _wrong(name, f"a whole number from {low:,} to {high:,} {unit}", text)
    return value


def _number(name: str, text: str | None, high: int, unit: str) -> None:
    if text is None:
        return
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= high and not (value == 0 and high == 1):
        raise _wrong(name, f"a number above 0, at most {high:,}, {unit}", text)


def _check_address(name: str, text: str | None) -> None:
    if text is None:
        return
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise StartupError(f"{name} must be an address such as http://otel-collector:4318, and it is none")


def _check_file(name: str, text: str | None) -> None:
    if text is None:
        return
    try:
        with Path(text).open("rb"):  # the file may have no end
            pass
    except (OSError, ValueError) as error:
        raise _wrong(name, f"a file that can be read ({getattr(error, 'strerror', None) or error})", text) from error


def _wrong(name: str, wanted: str, text: str) -> StartupError:
    return StartupError(f"{name} must be {wanted}, got {printable(text, longest=100)!r}; change it or unset it")
