"""The HTTP routes: parse, call, return. Paths and shapes are those of docs/api.md."""
