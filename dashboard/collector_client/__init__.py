"""The collector's HTTP API as the dashboard uses it; nothing else in the dashboard sends requests to the collector."""
