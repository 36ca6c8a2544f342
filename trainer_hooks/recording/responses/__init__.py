"""Which responses of a step are sampled, and how they are made ready to be sent."""
