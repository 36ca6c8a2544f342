"""The dashboard: web pages that show what the HTTP API of a collector returns."""
