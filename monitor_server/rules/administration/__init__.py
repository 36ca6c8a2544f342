"""Creates, changes and deletes rules: single rules by people, sets of rules from files."""
