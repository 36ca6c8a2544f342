"""The life of an alert: its stages, its changes by findings, their writing, and which of them people are told of."""
