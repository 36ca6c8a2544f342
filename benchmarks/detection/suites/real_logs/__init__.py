"""Suite C: logs of real runs from public repositories, with labels."""
