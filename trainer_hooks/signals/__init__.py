"""Rollouts in, signals out: names and definitions in docs/signals.md."""
