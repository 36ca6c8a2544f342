"""The report of a check: as JSON values, as a page, and in a terminal."""
