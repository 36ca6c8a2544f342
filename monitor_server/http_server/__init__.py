"""The HTTP server below the routes: connections, and the security rules that every request has to meet."""
