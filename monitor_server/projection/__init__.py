"""From stored records to complete steps, findings, alerts and phases."""
