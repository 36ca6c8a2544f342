"""Live events: rendered for the stream, queued for its subscribers, and relayed between collectors."""
