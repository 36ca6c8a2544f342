"""The page of a run, its labels and its workspace, and their callbacks."""
