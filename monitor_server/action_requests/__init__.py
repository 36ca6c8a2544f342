"""Requests of people to a trainer, over the receipts of its batches: once, for a short time, and with an answer."""
