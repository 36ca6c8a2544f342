"""The parts that only PostgreSQL needs: bounded connections, unresponsive servers, and messages between collectors."""
