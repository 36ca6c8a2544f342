"""The parts of the page of a run: its header, the form of its labels, and the workspace of its signals."""
