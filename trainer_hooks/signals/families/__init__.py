"""The definitions of the signals, one family a file: `NAMES` are its signals, and `compute` computes them."""
