"""Checks what a request contains: decoding, fields, records, and shapes of summaries."""
