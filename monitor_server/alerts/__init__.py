"""Alerts: their life cycle, acknowledgements, the alerts of silent runs, and the verdict in a receipt."""
