"""The built-in world of facts: questions, search tool, episodes, demonstrations."""
