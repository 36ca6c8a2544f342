"""The types of the items that the API returns, by subject; each has its name in the OpenAPI document."""
