"""Recorded runs that are part of rlvitals, and that the dashboard shows on request: a collapse, and an ablation."""
