"""Steps of a run: merged over ranks, completed in order, and given to the detectors."""
