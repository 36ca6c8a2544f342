"""The reference trainer: a small GRPO trainer with tool use that collapses, and can be treated, on a laptop."""
