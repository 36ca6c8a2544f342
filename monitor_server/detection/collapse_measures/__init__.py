"""Measures of a collapse that several detectors read: departures by mechanism, surges, excess loss, warm-up."""
