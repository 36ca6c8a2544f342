"""The collector: it receives and stores records, detects failures, raises alerts, and serves them over HTTP."""
