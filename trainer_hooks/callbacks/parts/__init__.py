"""What several trainer adapters share."""
