"""Streaming statistics and saved state. Nothing here knows a signal by name."""
