"""Keys: their creation, recognition and revocation, and the conditions before a collector listens."""
