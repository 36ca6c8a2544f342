"""The files that settings name: read within a bound, and watched for changes while the collector runs."""
