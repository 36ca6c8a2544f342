"""The pages, one per file: layout and callbacks."""
