"""Signs a browser in, and sends its credentials on to the collector."""
