"""The version of a database's schema, and its migration to the newest."""
