"""The HTTP server below the routes: connections, and the security rules for every request."""
