"""What an operator does with a database while collectors use it: look at its state, and copy it."""
