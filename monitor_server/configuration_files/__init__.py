"""The files that settings name: bounded reading, and checks for changes while the collector runs."""
