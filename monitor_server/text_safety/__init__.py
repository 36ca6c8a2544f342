"""Rules for text from outside: its allowed characters, and its form for display."""
