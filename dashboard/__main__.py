"""``python -m dashboard``: serve the dashboard in a process of its own."""

import sys

import uvicorn
from pydantic import ValidationError

from dashboard.app import create_app
from dashboard.settings import Settings


def main() -> None:
    """Serve until interrupted; exit with one line and status 1 if a setting is invalid."""
    try:
        settings = Settings()
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())
        sys.exit(f"rlvitals: a setting of the dashboard cannot be used: {problems}; see docs/configuration.md")
    app = create_app(api_url=settings.api_url, connect_url=settings.connect_url)
    # Open browsers never end their streams; one second is enough to finish loading a page.
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
