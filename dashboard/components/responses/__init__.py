"""The parts of sampled responses: token strips, cards, and the controls of the page that lists them."""
