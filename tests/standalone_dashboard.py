"""A dashboard that asks a collector over HTTP."""

import contextlib
import threading

from dashboard.standalone import create_app
from monitor_server.http_server.connections import ConnectionLimits
from monitor_server.http_server.server import Server, bind
from tests.live import eventually


@contextlib.contextmanager
def serving_dashboard(api_url, listening=None):
    """Run a dashboard in its own process, and yield its address."""
    listening = listening or bind("127.0.0.1", 0)
    app = create_app(api_url=api_url)
    server = Server(app, limits=ConnectionLimits(), grace_seconds=1)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="dashboard")
    thread.start()
    eventually(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listening.close()
