"""How busy the projector is, and how it lets ingest go first."""
