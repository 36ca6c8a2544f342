"""Evidence that several detectors share: departures by mechanism, surges, excess loss, warm-up."""
