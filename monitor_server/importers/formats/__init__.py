"""The supported formats, each a file or a folder with one `Importer`, and helpers for several of them."""
