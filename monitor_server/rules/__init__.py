"""The user's own rules: their definition, their evaluation step by step, and their administration."""
