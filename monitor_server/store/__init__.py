"""The store: the only package that uses SQL. Only `Store.write` and `Records.extend` commit."""
