"""The pages that links of notifications open."""
