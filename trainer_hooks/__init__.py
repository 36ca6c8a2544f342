"""What runs inside a training process: signals, delivery, callbacks, losses and the reference trainer."""
