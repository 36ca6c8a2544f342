"""Selects the sampled responses of a step, and encodes them."""
