"""Measures how busy the projector is, and lets ingest go first."""
