"""Logs of finished runs, in the shapes that trainers leave behind, as observations under canonical names."""
