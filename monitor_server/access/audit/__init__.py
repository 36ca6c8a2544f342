"""The audit log: who has changed what, and which settings a start has changed."""
