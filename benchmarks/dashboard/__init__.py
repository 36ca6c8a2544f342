"""The cost of the dashboard, measured in Chromium: cold loads, and pages that stay open.

`cold_load` loads pages and the smallest Dash page, `open_page` pushes steps and zooms, `collector` runs the collector
that they show, `command` is the entry point of ``make bench-dashboard``.
"""

from benchmarks.dashboard.command import main

__all__ = ["main"]
