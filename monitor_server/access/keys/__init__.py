"""Keys: how they are made, recognised and revoked, and what must hold before a collector listens."""
