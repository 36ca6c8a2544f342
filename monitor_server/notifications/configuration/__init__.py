"""The file of channels and routes: what it may hold, and how it is read."""
