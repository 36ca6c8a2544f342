"""Terms and token weights of a policy loss: LLDS, NTHR, the answer weight, plain likelihood, KL-Cov, STARE, ACPO."""
