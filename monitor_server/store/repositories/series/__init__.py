"""Whole signals of a run: compacted chunks, and rows of steps that are not compacted yet.

The rows of `steps` are authoritative. A chunk repeats those of a range of steps by signal. A step that is written into
its range removes the chunk, and its steps are read from their rows until they are compacted again.
"""
