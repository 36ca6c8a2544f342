"""The collector of this process, as routes see it: its parts, its health, its receipts, and the wait for detection."""
