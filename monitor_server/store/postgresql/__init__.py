"""What only PostgreSQL needs: bounded connections, its silence, and messages between collectors."""
