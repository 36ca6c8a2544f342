"""Measures that several detectors read: departures by mechanism, surges, excess loss, records, warm-up."""
