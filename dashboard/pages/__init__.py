"""The pages, one a file: address, layout, requests to the API, and callbacks."""
