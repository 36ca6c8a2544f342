"""TensorBoard event files: their records, which are read many at once if a trainer repeats itself."""
