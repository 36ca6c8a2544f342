"""The panels of a run's signals."""

from typing import Final

WORKSPACE: Final = "workspace"
SEARCH: Final = "workspace-search"
SMOOTHING: Final = "workspace-smoothing"
AXIS: Final = "workspace-axis"
OUTLIERS: Final = "workspace-outliers"
SCALE: Final = "workspace-scale"
ZOOM: Final = "workspace-zoom"  # the zoomed interval in units of the axis, or nothing
WANTED: Final = "workspace-wanted"  # which panels the browser wants drawn, and how
COUNT: Final = "workspace-count"
LEFT_OUT: Final = "workspace-left-out"  # the signals that are not stored
NONE_FOUND: Final = "workspace-none-found"
PLACES: Final = "workspace-places"
DRAWN: Final = "workspace-drawn"  # the figures of the panels that were wanted
EXPORTED: Final = "workspace-exported"  # the signal whose values are to be saved
DOWNLOAD: Final = "workspace-download"
EXPORT_STATE: Final = "workspace-export-state"
