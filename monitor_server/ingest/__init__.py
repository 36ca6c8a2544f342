"""From a request body to validated records: decoding, validation and limits."""
