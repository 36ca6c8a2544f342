"""Decides who may do what: API keys, scopes, sessions of the dashboard, and the one check of every request."""
