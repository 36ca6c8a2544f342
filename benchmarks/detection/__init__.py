"""The detection benchmark: authored, emergent and real runs; ours, baselines and peers; lead beside false alarms.

Data moves one way. `authored`, `induced` and `garbled` make runs, in the shape of `runs`. The `candidates` read them,
`scoring` compares their alarms with the truth, the `suites` do both for each kind of run, and `results_page` writes the
tables. `causes`, `forecast` and `warranty` measure the suspects of alerts, the forecast and the budget of false alarms
on the same runs. Each command is a module of this folder, or a folder with a `__main__`.
"""

from benchmarks.detection.command import main

__all__ = ["main"]
