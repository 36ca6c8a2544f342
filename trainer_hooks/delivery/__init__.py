"""Carries records to the collector without ever slowing or endangering training."""
