"""The HTTP API: its routes, the schemas of its answers, and what they are made from."""
