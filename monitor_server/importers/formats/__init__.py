"""The formats that can be read, one a file or a folder with one `Importer` each, and helpers that several share."""
