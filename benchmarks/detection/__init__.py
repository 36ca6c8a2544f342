"""The detection benchmark: authored, emergent and real runs; ours, baselines and peers; lead beside false alarms."""

from benchmarks.detection.command import main

__all__ = ["main"]
