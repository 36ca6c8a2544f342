"""Likelihood-displacement regularisers as pure torch functions."""
