"""The parts of an alert: evidence, explanation, actions, token strips."""
