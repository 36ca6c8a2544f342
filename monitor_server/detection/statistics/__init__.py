"""Streaming statistics and saved state, independent of the names of signals."""
