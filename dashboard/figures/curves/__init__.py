"""What is computed from the points of a curve, and how a curve is drawn."""
