"""Operations on a database while collectors use it: reading its state, and copying it."""
