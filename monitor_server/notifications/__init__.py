"""Notifies people and programs of alerts: routes, grouping, messages, and their delivery to channels."""
