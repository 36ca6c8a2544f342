"""HTTP routes: parse, call, return."""
