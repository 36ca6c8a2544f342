"""The audit log: who changed what, and which settings a start has changed."""
