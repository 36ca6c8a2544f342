"""Computations on the points of a curve (smoothing, running sums), and the traces that draw it."""
