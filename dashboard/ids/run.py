"""The page of a run, and the form of its labels."""

from typing import Final

FIGURE_PLACE: Final = "run-figure-place"
FIGURE: Final = "run-figure"
FORECAST: Final = "run-forecast"
FORECAST_REFRESH: Final = "run-forecast-refresh"
HEADER: Final = "run-header"
ALERTS: Final = "run-alerts"
DELETE: Final = "run-delete"
DELETE_CONFIRMED: Final = "run-delete-confirmed"
LABEL_ARCHIVED: Final = "label-archived"
LABEL_HELD: Final = "label-held"  # what the collector held when the form was filled
LABEL_NOTES: Final = "label-notes"
LABEL_NOTES_SHOWN: Final = "label-notes-shown"
LABEL_SAVE: Final = "label-save"
LABEL_STATE: Final = "label-state"
LABEL_TAGS: Final = "label-tags"
LABEL_TITLE: Final = "label-title"
REFRESH: Final = "run-refresh"
VIEW: Final = "run-view"  # smoothing and zoom of the vital signs, as the browser shows them
VIEWED: Final = "run-viewed"  # their figure for such a view, and the view
