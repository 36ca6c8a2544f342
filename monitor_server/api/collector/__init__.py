"""The collector behind the routes: its parts, its health, the receipts of batches, and changes by people."""
