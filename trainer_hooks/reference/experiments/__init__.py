"""The paper's pictures on the built-in world: arms, seeds, recordings, tables, figures."""
