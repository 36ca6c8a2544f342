"""The cost of the SDK for a training, beside the loggers that people use: blocking time, processor time, bytes.

`loggers` calls each tool, `worker` is one tool's process, `race` runs the tools in turns, `trainers` measures whole
trainings, `report` writes the tables, `command` is the entry point of ``make bench-overhead``.
"""
