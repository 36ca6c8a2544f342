"""One update of the weights: batch, advantages, objective, critic and optimiser."""
