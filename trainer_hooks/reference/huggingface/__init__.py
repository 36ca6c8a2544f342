"""Any causal language model of a local Hugging Face folder, as a policy."""
