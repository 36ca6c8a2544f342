"""The built-in task: a world of facts, its questions, search tool, episodes and demonstrations."""
