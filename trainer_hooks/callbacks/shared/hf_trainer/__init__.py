"""Code for every Hugging Face Trainer: transformers' own and TRL's trainers, which derive from it."""
