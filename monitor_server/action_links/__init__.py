"""Signed, single-use links in notifications, by which people act on an alert without signing in."""
