"""The HTTP API: routes, the shapes of answers, lists, events and errors. docs/api.md describes it."""
