"""Page elements of sampled responses: token strips, cards, and the controls of their list."""
