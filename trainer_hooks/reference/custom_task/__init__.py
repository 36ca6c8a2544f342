"""A task of your own: questions in plain text, answered with a search tool in the protocol of Search-R1."""
