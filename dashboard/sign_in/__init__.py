"""Signs a browser in, and sends on what it has shown of itself."""
