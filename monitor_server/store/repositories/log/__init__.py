"""The log of records: packing into blocks, appending, reading and removal."""
