"""``python -m dashboard``: the dashboard on its own, beside a collector."""

import uvicorn

from dashboard.app import create_app
from dashboard.settings import Settings


def main() -> None:
    """Serve until interrupted."""
    settings = Settings()
    app = create_app(api_url=settings.api_url, connect_url=settings.connect_url)
    # Open browsers hold their streams for ever; one second is enough to end a page load.
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
