"""Rules for text from outside: what it may hold, and how it is shown."""
