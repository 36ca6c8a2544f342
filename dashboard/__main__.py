"""``python -m dashboard``: the dashboard on its own, beside a collector."""

import sys

import uvicorn
from pydantic import ValidationError

from dashboard.app import create_app
from dashboard.settings import Settings


def main() -> None:
    """Serve until interrupted; a setting that cannot be used ends it with one line and status 1."""
    try:
        settings = Settings()
    except ValidationError as error:
        told = "; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())
        sys.exit(f"rlvitals: a setting of the dashboard cannot be used: {told}; see docs/configuration.md")
    app = create_app(api_url=settings.api_url, connect_url=settings.connect_url)
    # Open browsers hold their streams for ever; one second is enough to end a page load.
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
