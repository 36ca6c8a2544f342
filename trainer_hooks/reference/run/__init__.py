"""What surrounds the trainer during a run: loop, checkpoints, ranks, telemetry."""
