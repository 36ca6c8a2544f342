"""Experiments on the reference trainer that repeat the paper's figures: arms, seeds, recordings, tables."""
