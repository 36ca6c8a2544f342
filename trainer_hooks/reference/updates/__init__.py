"""One update: batch, objective, methods, learner, and what the update did."""
