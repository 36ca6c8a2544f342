"""`rlvitals reassess`: judged runs with the detectors of another version, and how their alarms compare."""
