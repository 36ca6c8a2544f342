"""Decompresses the body of a request to at most a number of bytes, however large it would become."""

import zlib

import zstandard

from monitor_server.errors import BodyTooLarge, MalformedBody, UnsupportedMediaType

__all__ = ["decompress"]


def decompress(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Decompress to at most ``limit`` bytes.

    Raises:
        MalformedBody: If the body is truncated or not compressed with ``encoding``.
        BodyTooLarge: If the decompressed body would be larger than ``limit``.
        UnsupportedMediaType: If the encoding is neither zstd, gzip nor identity.
    """
    if encoding in ("", "identity"):
        return body
    if encoding == "gzip":
        return _gunzip(body, limit)
    if encoding == "zstd":
        return _unzstd(body, limit)
    raise UnsupportedMediaType(f"Content-Encoding must be zstd, gzip or identity, got {encoding!r}")


def _gunzip(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        decoded = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise MalformedBody(f"the body must be gzip as Content-Encoding says: {error}") from error
    if len(decoded) > limit:
        raise _too_large(limit)
    if not stream.eof or stream.unused_data:
        raise MalformedBody(
            f"the body must be one whole gzip stream, got one {'followed by more' if stream.eof else 'cut short'}"
        )
    return decoded


def _unzstd(body: bytes, limit: int) -> bytes:
    try:
        declared = zstandard.frame_content_size(body)
        if declared > limit:
            raise _too_large(limit)
        # One byte over the limit is enough to tell a large body from a malformed one.
        return zstandard.ZstdDecompressor().decompress(
            body, max_output_size=limit + 1 if declared < 0 else 0, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise MalformedBody(
            f"the body must be one whole zstd frame of at most {limit} bytes as Content-Encoding says: {error}"
        ) from error


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body must decompress to at most {limit} bytes, got more; send smaller batches")
