"""`rlvitals reassess`: compares the alarms of several versions of the detectors in judged runs."""
