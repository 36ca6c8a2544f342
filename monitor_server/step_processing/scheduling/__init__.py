"""The order of work: the queue of runs, the receipts that wait for a verdict, and the priority of ingest."""
