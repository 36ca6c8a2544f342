"""The HTTP routes: each parses the request, calls the store or the writer, and shapes the answer."""
