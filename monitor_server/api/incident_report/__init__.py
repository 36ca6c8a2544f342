"""The incident report: the data about an alert and its run, in one HTML file."""
