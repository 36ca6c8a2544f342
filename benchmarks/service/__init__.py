"""The work that one collector does in a second, and the growth of its cost: ``make bench-service``."""
