"""The candidates, which read runs and alarm: our engine, its variants, simple rules, and the peers."""
