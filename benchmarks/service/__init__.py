"""What one collector does in a second, and how its cost grows: ``make bench-service``."""
