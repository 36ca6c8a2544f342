"""The first view of a page: what the server draws into the document, before the browser has loaded Dash."""
