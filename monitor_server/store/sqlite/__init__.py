"""The parts that only SQLite needs: prepared connections, one writer at a time, and checks of the file."""
