"""Terms added to a policy loss: LLDS, NTHR, the answer weight, and a likelihood term."""
