"""``python -m dashboard``: the dashboard on its own, beside a collector."""

import uvicorn

from dashboard.app import create_app
from dashboard.settings import Settings


def main() -> None:
    """Serve until interrupted."""
    settings = Settings()
    app = create_app(api_url=settings.api_url, connect_url=settings.connect_url)
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning")


if __name__ == "__main__":
    main()
