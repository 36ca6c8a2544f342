"""Reads a part of the saved state of detection, for readers."""

import logging
from typing import TypeVar

import msgspec

__all__ = ["decode_part"]

log = logging.getLogger(__name__)

Part = TypeVar("Part", bound=msgspec.Struct)


def decode_part(decoder: msgspec.msgpack.Decoder[Part], state: bytes) -> Part | None:
    """Return the part that a decoder reads, or None if the state is damaged.

    The projector quarantines the run of a damaged state, and an alert reports it; its pages must show this alert.
    """
    try:
        return decoder.decode(state)
    except msgspec.MsgspecError as error:
        log.warning("a saved state of detection cannot be read: %s", error)
        return None
