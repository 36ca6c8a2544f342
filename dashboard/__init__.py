"""The dashboard: it reads the collector's HTTP API and nothing else."""
