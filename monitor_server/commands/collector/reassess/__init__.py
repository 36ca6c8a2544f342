"""`rlvitals reassess`: compares the alarms of another version's detectors in judged runs."""
