"""Page elements of rules: the list, the form, and what a dry run says."""
