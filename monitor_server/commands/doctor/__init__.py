"""`rlvitals doctor`: looks at the settings, the database and a running collector, and says what to do."""
