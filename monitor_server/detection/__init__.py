"""Pure streaming detection: live, replay and tests call the same code."""
