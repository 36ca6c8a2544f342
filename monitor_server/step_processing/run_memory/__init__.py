"""What a projector remembers of its runs from slice to slice; each can be dropped at any time and is read again."""
