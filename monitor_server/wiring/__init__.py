"""Connects the parts of one collector: store, log, projection, notifications, retention and others."""
