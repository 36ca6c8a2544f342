"""The formats that can be read, one a file with one `Importer` each, and helpers that several formats share."""
