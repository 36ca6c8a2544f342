"""The events that channels are notified of, the messages about them, and the status of each channel."""
