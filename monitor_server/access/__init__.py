"""Who may do what: API keys, scopes, sessions of the dashboard, and the one place where every request is checked."""
