"""Whole signals of a run: compacted chunks, and rows of steps where nothing is compacted yet.

The rows of `steps` stay what is true. A chunk repeats those of a range of steps by signal; a step that is written into
its range removes it, and its steps are read from their rows until they are compacted anew.
"""
