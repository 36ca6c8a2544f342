"""The incident report: what is known of an alert and its run, in one HTML file."""
