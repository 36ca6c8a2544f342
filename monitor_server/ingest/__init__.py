"""Receives batches: decodes and validates them, and appends their records to the log of the run."""
