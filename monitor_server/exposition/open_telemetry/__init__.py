"""Traces and metrics by OpenTelemetry's protocol, if the setting enables them."""
