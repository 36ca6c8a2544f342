"""`rlvitals doctor`: checks the settings, the database and a running collector, and gives advice."""
