"""How the collector reports its own work: lines of its log, ids of requests, and spans."""
