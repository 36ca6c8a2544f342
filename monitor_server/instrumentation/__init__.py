"""Reports the collector's own work: lines of its log, ids of requests, and spans."""
