"""Pure functions from the API's items to Plotly figures."""
