"""Recorded runs that come with rlvitals, as the dashboard shows them on request: a collapse, and an ablation."""
