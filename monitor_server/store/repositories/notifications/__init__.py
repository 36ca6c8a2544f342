"""What channels are to be notified of, the messages to them, and how each channel is."""
