"""Parts of detectors that several share: departures by mechanism, surges, excess loss, records, warm-up."""
