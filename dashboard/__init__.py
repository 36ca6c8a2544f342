"""The dashboard: reads the collector's HTTP API and nothing else."""
