"""The first view of a page, which the server writes into the document, before the browser has loaded Dash."""
