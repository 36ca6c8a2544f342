"""Measurements beside the updates: held-out responses, probes of one question, siblings, and causes of a change."""
