"""Pure functions from the API's items to page elements."""
