"""Page elements such as lists, cards and tables: pure functions from items of the API to Dash components."""
