"""Writes runs as JSON lines or Parquet, which `rlvitals check` and `replay` read; `docs/export.md` describes both.

A file holds a run as it was when the file began. One page of steps is read and written at a time, each on a snapshot of
its own, so that memory does not grow with the run and no long transaction holds the database: later steps are left out,
and detection reads no earlier one again. If a run is deleted or reset meanwhile, its file ends with an error.
"""
