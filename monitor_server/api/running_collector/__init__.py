"""The collector of this process for its routes: its parts, its health, its receipts, and the wait for detection."""
