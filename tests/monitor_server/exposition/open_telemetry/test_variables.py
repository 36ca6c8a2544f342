"""The standard variables of OpenTelemetry are bounded at the start, and the message names the wrong one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.app import create_app
from monitor_server.errors import StartupError
from monitor_server.exposition.open_telemetry.variables import check_variables
from monitor_server.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "nan"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "inf"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1e300"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "9" * 5_000),
        ("OTEL_METRIC_EXPORT_INTERVAL", "60s"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "x"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1000000000"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10000"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "nan"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "otel-collector:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[1"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", ""),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "-1"),
        ("OTEL_SDK_DISABLED", "perhaps"),
    ],
)
def test_a_variable_that_cannot_be_used_ends_the_start(monkeypatch, tmp_path, name, value):
    """Before anything is exported, in one line of bounded length."""
    monkeypatch.setenv(name, value)
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", dashboard="", opentelemetry=True)
    with pytest.raises(StartupError, match=name) as refused:
        create_app(settings)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("value", ["2", "-0.1", "nan", "x"])
def test_a_share_of_traces_is_between_0_and_1(value):
    """The SDK would take another one for 1."""
    given_ = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": value}
    with pytest.raises(StartupError, match="OTEL_TRACES_SAMPLER_ARG"):
        check_variables(given_.get)
    check_variables({"OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_SAMPLER_ARG": value}.get)


def test_a_password_in_an_address_is_not_shown():
    """No other part of the address is shown either."""
    with pytest.raises(StartupError) as refused:
        check_variables({"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://user:secret@host"}.get)
    assert "secret" not in str(refused.value)


def test_usual_values_are_taken():
    """Empty values, as in a Compose file, are accepted too."""
    check_variables({}.get)
    check_variables(
        {
            "OTEL_METRIC_EXPORT_INTERVAL": "15000", "OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_SCHEDULE_DELAY": "",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8", "OTEL_EXPORTER_OTLP_TIMEOUT": "2.5", "OTEL_SDK_DISABLED": "TRUE",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "https://otel.example.org:4318", "OTEL_SPAN_LINK_COUNT_LIMIT": "unset",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0",
        }.get
    )  # fmt: skip


@given(value=st.text(max_size=30))
def test_any_other_text_is_refused_in_words(value):
    """Nothing but the error of the start comes out of it."""
    with contextlib.suppress(StartupError):
        check_variables({"OTEL_METRIC_EXPORT_INTERVAL": value, "OTEL_EXPORTER_OTLP_ENDPOINT": value}.get)
