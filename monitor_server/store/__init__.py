"""The store: the only package that uses SQL. Its methods never commit; `Store.write` does."""
