"""What routes call: the parts of the collector, its health, receipts of batches, and the wait for detection."""
