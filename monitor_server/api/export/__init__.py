"""Writes runs as JSON lines or Parquet, which `rlvitals check` and `replay` read; `docs/export.md` describes both.

One page of steps is read and written at a time, each on a snapshot of its own, so that memory does not grow with the
run and no long transaction holds the database. If a run is deleted or reset meanwhile, its file ends with an error.
"""
