"""Parts that several detectors share: departures by mechanism, surges, excess loss, largest sizes, warm-up."""
