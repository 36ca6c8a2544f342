"""The projector's memory of its runs between slices; each part can be dropped at any time and is read again."""
