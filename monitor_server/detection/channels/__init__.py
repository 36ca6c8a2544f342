"""What several detectors derive from the same signals: departures by mechanism, surges, excess loss, warm-up."""
