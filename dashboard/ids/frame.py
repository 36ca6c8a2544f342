"""The frame around every page: address, live updates, retries, the form for a key."""

from typing import Final

ADDRESS: Final = "address"
PAGE: Final = "page"
RETRY: Final = "retry"
RETRY_NOW: Final = "retry-now"
WAITING: Final = "waiting"
NOTIFY: Final = "notify"
SIGN_OUT: Final = "sign-out"
THEME: Final = "theme"
KEYS: Final = "keys"
KEYS_OPEN: Final = "keys-open"
LIVE: Final = "live"
LIVE_STATE: Final = "live-state"
PALETTE: Final = "palette"
PALETTE_FOUND: Final = "palette-found"
PALETTE_TEXT: Final = "palette-text"
