"""Agreement of the ranks of a training with each other, without an additional collective."""
