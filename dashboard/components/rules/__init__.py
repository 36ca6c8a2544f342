"""Page elements of rules: the list, the form, and the result of a dry run."""
