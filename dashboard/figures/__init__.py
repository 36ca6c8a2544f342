"""Charts: pure functions from items of the API to Plotly figures."""
