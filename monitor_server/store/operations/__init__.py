"""Operations on a database while collectors use it: reads its state, and copies it."""
