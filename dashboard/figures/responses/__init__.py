"""Charts of sampled responses."""
