"""The files of users: bounded reading, writing as a whole, and checks for changes while the collector runs."""
