"""Measures the model while it trains: attention, expert routing, gradients of each module. Depends on no trainer."""

from trainer_hooks.model_monitors.schedule import ModelMonitors

__all__ = ["ModelMonitors"]
