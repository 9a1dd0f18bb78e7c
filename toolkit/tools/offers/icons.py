"""Pictures that clients show beside a tool, a resource or a prompt."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from toolkit.errors import ToolDefinitionError
from toolkit.tools.content import Image
from toolkit.tools.declared import misfit
from toolkit.tools.plain_json import is_json_object

_SCHEMES = ("https://", "http://", "data:image/")
_FIX = 'Give an https address, a file, or both with its size: icons=["https://…/note.png", Path("note.svg")]'
_LARGEST = 256 * 1024


class IconFields(TypedDict, total=False):
    """What the protocol says of an icon."""

    src: str
    mimeType: str
    sizes: Sequence[str]
    theme: Literal["light", "dark"]


Refusal = Callable[[str, str], ToolDefinitionError]


def read_icons(given: object, refusal: Refusal) -> tuple[dict[str, Any], ...]:
    """The icons as clients get them; a file is sent along as a data: address.

    Raises:
        ToolDefinitionError: something that is no icon.
    """
    if given is None:
        return ()
    listed = given if isinstance(given, list | tuple) else [given]
    return tuple(_icon(each, refusal) for each in listed)


def _icon(given: object, refusal: Refusal) -> dict[str, Any]:
    if isinstance(given, Path):
        return _from_file(given, refusal)
    if isinstance(given, Mapping) and is_json_object(given) and _is_address(given.get("src")):
        if wrong := misfit({name: value for name, value in given.items() if value is not None}, IconFields):
            raise refusal(f"in its icon, {wrong.what}", _FIX)
        return dict(given)
    if _is_address(given):
        return {"src": given}
    raise refusal(f"{given!r} is no icon", _FIX)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_SCHEMES)


def _from_file(file: Path, refusal: Refusal) -> dict[str, Any]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise refusal(f"its icon {file} cannot be read: {error.strerror}", _FIX) from error
    if len(data) > _LARGEST:
        raise refusal(f"its icon {file} has {len(data):,} bytes; every listing carries it", _FIX)
    mime = "image/svg+xml" if file.suffix == ".svg" else Image(data).block()["mimeType"]
    return {"src": f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}", "mimeType": mime}
