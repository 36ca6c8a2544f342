"""The built-in task: facts, questions about them, search tool, episodes and demonstrations."""
