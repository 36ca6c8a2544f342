"""Passes of the model beside training: scores before and after an update, and numbers that are computed again."""
