"""Reads the sampled responses of a record. An invalid response is left out, and the rest of the record is kept."""

import logging
from collections.abc import Sequence

import msgspec

from monitor_server.ingest.limits import ERROR_CHARS
from monitor_server.settings import Settings
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = ["DECODING_ERRORS", "ResponseReader"]

log = logging.getLogger(__name__)

DECODING_ERRORS = (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""The errors that decoding raises for bytes that a trainer should not send, and for damaged ones."""


class ResponseReader:
    """Reads the responses of the records of one batch."""

    def __init__(self, settings: Settings, media_type: str) -> None:
        self._settings = settings
        self._media_type = media_type
        self._has_refused = False

    def read(self, sent: Sequence[msgspec.Raw]) -> list[wire.Response]:
        """Return the responses that are well formed and not too large; leave the other ones out."""
        responses: list[wire.Response] = []
        most_bytes = self._settings.max_response_bytes
        for raw in sent[: self._settings.max_responses]:
            size = len(memoryview(raw))
            if size > most_bytes:
                self._log_refusal(f"{size} bytes are more than RLVITALS_MAX_RESPONSE_BYTES")
                continue
            try:
                response = wire.decode_response(raw, self._media_type)
                if self._media_type == wire.JSON:
                    wire.encode(response)  # refuses values that only JSON can express, such as an integer of 80 bits
                responses.append(response)
            except DECODING_ERRORS as error:
                self._log_refusal(printable(error, longest=ERROR_CHARS))
        if len(sent) > self._settings.max_responses:
            self._log_refusal(f"a record had {len(sent)}, and RLVITALS_MAX_RESPONSES are read")
        return responses

    def _log_refusal(self, reason: str) -> None:
        """Log the first refusal of a batch; the receipt counts all."""
        if not self._has_refused:
            self._has_refused = True
            log.warning("a sampled response was refused, and others of its batch may be: %s", reason)
