"""Parts that several detectors share: departures by mechanism, surges, excess loss, records, warm-up."""
