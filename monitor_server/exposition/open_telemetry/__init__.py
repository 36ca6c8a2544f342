"""Traces and metrics by OpenTelemetry's protocol, when the setting asks for them."""
