"""Pure functions from API answers to Plotly figures."""
