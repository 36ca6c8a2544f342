"""How values are stored: packed steps, compressed columns of signals, and JSON."""
