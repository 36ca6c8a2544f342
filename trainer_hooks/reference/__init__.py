"""The reference tool-integrated GRPO trainer: the disease and the cure on a laptop."""
