"""The collector: receives records, stores them, detects, alerts, exposes."""
