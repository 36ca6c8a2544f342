"""What the dashboard costs, measured in Chromium: cold loads, and pages that stay open.

`cold_load` loads pages beside the smallest Dash page, `open_page` pushes steps and zooms, `collector` runs what they
look at, `command` is the entry point of ``make bench-dashboard``.
"""

from benchmarks.dashboard.command import main

__all__ = ["main"]
