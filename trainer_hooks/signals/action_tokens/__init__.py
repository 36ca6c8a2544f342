"""The actions of a response: which tokens belong to which, and sums over the tokens of each."""
