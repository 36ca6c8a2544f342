"""Encodes values for the database: packed steps, compressed columns of signals, and JSON."""
