"""What only SQLite needs: prepared connections, one writer at a time, and a file that must stay where it is."""
