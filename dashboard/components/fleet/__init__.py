"""Page elements of the fleet: the summary, the filters, and the table of runs."""
