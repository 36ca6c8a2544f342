"""TensorBoard event files: their records, read many at once where a trainer repeats itself."""
