"""The formats that can be read, one a file; each module holds one `Importer`."""
