"""What the adapters of every Hugging Face Trainer share: transformers' own, and TRL's, which are built on it."""
