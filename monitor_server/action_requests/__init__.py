"""People's requests to a trainer, sent with the receipts of its batches: once, for a short time, and with an answer."""
