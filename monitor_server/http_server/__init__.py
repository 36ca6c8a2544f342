"""What stands between the socket and the routes: the server, and the rules that every request has to meet."""
