"""Finds the runs in files and folders: the format of a file, and the kind of a folder."""
