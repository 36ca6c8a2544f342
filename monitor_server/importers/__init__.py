"""Reads logs of other trainers and tools, as observations under canonical signal names."""
