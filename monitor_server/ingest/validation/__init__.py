"""Checks the content of a request: decoding, fields, records, and shapes of summaries."""
