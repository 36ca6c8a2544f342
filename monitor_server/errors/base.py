"""The base class of the collector's errors."""

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CollectorError"]


class CollectorError(Exception):
    """Base of the collector's errors; ``status`` is the HTTP status, ``headers`` are sent with it."""

    status = 500
    headers: Mapping[str, str] = MappingProxyType({})
