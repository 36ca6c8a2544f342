"""The routes of the collector that the dashboard calls, one module for each resource."""
