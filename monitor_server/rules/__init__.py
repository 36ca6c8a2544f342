"""Rules of the user's own: what they state, how they are evaluated step by step, and how people change them."""
