"""The clipped policy objectives: GRPO, GSPO and PPO."""
