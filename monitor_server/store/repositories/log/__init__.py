"""The log of records: how they are packed into blocks, appended, read and removed."""
