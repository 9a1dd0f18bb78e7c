"""Make the bytes of a block shorter, and give them back: zstd where it is installed, else what Python has.

Measured on source code, zstd takes a quarter of the time of deflate and gives less. Both sides of a fleet install the
extra `dask`, which has it; a machine without it still packs, and says what it lacks where it should unpack.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any

from toolkit.fleets.parcels.entries import inflated


@cache
def _zstd() -> Any | None:
    try:
        return import_module("zstandard")
    except ImportError:
        return None


def squeezed(raw: bytes) -> tuple[str, bytes]:
    """How the bytes were packed, and what they are then."""
    zstd = _zstd()
    if zstd is None:
        return "deflate", zlib.compress(raw, 1)
    return "zstd", zstd.ZstdCompressor(level=1).compress(raw)


def unsqueezed(how: str, data: bytes, size: int) -> bytes:
    """The bytes again, where they are no more than `size`.

    Raises:
        ValueError: they are more, they are damaged, or what they need is not installed.
    """
    if how == "raw":
        return data
    if how == "deflate":
        return inflated(data, size)
    zstd = _zstd()
    if zstd is None:
        raise ValueError("it needs zstandard, which is not installed: pip install zstandard")
    try:
        if zstd.frame_content_size(data) != size:
            raise ValueError("it holds more than it may, or less than it said")
        return bytes(zstd.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False))
    except zstd.ZstdError as error:
        raise ValueError(f"it is damaged ({error})") from None
