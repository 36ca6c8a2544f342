"""The store: the only place that speaks SQL. Its methods never commit; `Store.write` does."""
