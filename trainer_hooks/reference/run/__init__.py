"""A run of the reference trainer: its steps, the loop, checkpoints and telemetry."""
