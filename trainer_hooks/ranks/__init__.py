"""What the ranks of one training agree on, without adding a collective to it."""
