"""Decides which callers may do what: API keys, scopes, sessions of the dashboard, and the check of every request."""
