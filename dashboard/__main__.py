"""``python -m dashboard``: serve the dashboard in a process of its own."""

import contextlib
import re
import sys
from collections.abc import Sequence
from typing import Final

try:
    from pydantic import ValidationError

    from dashboard.collector_client.http_requests import without_credentials
    from dashboard.settings import Settings, variable
    from dashboard.standalone import create_app
    from monitor_server.http_server.connections import ConnectionLimits
    from monitor_server.http_server.host_policy import StartupError
    from monitor_server.http_server.server import Server, announce, bind, bound_url
except ModuleNotFoundError as missing:
    sys.exit(f"rlvitals: the dashboard needs {missing.name}, which is not installed: pip install 'rlvitals[dashboard]'")

CREDENTIALS: Final = re.compile(r"//.*@", re.DOTALL)  # in an address that cannot be used, and may hold a password


def main(arguments: Sequence[str] = ()) -> None:
    """Serve until interrupted; exit with one line and status 1 if a setting is invalid or there are arguments."""
    if arguments:
        sys.exit(
            f"rlvitals: python -m dashboard takes no arguments, got {' '.join(arguments)!r}; "
            f"set {variable('port')}, {variable('host')} and {variable('api_url')} (docs/configuration.md)"
        )
    try:
        settings = Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"{variable(str(item['loc'][0]))}: {item['msg']}, got {CREDENTIALS.sub('//***@', str(item['input']))!r}"
            for item in error.errors()
        )
        sys.exit(f"rlvitals: a setting of the dashboard cannot be used: {problems}; see docs/configuration.md")
    try:
        app = create_app(
            api_url=settings.api_url,
            connect_url=settings.connect_url,
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            insecure=settings.insecure,
        )
        listening = bind(settings.host, settings.port, choice=variable("port"))
    except StartupError as error:
        sys.exit(f"rlvitals: {error}")
    with contextlib.suppress(KeyboardInterrupt):
        announce(
            f"the dashboard of {without_credentials(settings.api_url)} is listening on {bound_url(listening)}; "
            "Ctrl-C ends it"
        )
        # Open browsers never end their streams; one second is enough to finish loading a page.
        Server(app, limits=ConnectionLimits(), grace_seconds=1).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1:])
