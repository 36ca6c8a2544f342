"""Reads logs that other trainers and tools have written, as observations under canonical signal names."""
