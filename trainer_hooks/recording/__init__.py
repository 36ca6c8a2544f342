"""From the arrays of a step to a wire record."""
