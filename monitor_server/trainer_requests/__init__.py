"""What people ask a trainer for, over the receipts of its batches: once, for a short time, and with an answer."""
