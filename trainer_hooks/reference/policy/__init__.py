"""The built-in policy: model, warm start, sampling and scoring."""
