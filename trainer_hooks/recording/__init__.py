"""Builds wire records from what a step's `log_step` was given.

- `inputs` reads scalars and token arrays in the training thread.
- `records` reduces them to signals in a background thread and encodes one record a step.
- `selection` chooses the few responses that are sent with a record; `device_candidates` does so on an accelerator, and
  `responses` puts them into wire form.
- `batches` encodes records as batches.
- `health` keeps what the collector answers: the run's phase and its alerts.
"""
