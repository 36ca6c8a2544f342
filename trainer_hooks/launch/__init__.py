"""How this training process was launched."""
