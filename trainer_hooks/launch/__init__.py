"""How a training process was launched."""
