"""What the SDK costs a training, beside the loggers that people use: time held, processor, bytes.

`loggers` speaks to each tool, `worker` is one tool's process, `race` runs them in turns, `trainers` looks at whole
trainings, `report` draws the tables, `command` is what ``make bench-overhead`` calls.
"""
