"""Pure functions from API answers to page elements."""
