"""Scores the alarms of a candidate against the truth of its runs: lead beside false alarms, with exact intervals."""
