"""Fixtures of the tests of the whole product."""

from tests.tiny_cache import tiny_cache

__all__ = ["tiny_cache"]
