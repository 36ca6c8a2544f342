"""What detectors are made of: base classes and streaming statistics."""
