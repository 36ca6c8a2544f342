"""Builds records from the arguments of `log_step`: reads them, reduces them to signals, selects responses.

- `inputs` reads scalars and token arrays in the training thread.
- `records` reduces them to signals in a background thread and encodes one record a step.
- `usable_fields` leaves out the names and versions for which the collector would refuse a record.
- `responses.selection` chooses the few responses that are sent with a record. On an accelerator `responses.candidates`
  first gathers the rows to choose from. `responses.wire_form` puts the chosen responses into wire form, and
  `responses.sampler` cuts them, adds texts, and encodes them.
- `schema_versions` finds the lowest version of the schema that reads a record.
- `batches` encodes records as batches.
- `health` keeps the run's phase and alerts as the collector answers them.
"""
