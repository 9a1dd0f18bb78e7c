"""The one way out of a jail: to the model API, and to the domains that were allowed by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.sandbox.gate.gate import Gate as Gate
    from toolkit.sandbox.gate.gate import Refusal as Refusal
    from toolkit.sandbox.gate.http import Headers as Headers
    from toolkit.sandbox.gate.http import ProtocolError as ProtocolError
    from toolkit.sandbox.gate.http import Refused as Refused
    from toolkit.sandbox.gate.http import body_length as body_length
    from toolkit.sandbox.gate.http import body_pieces as body_pieces
    from toolkit.sandbox.gate.http import parse_request_head as parse_request_head
    from toolkit.sandbox.gate.tunnel import NotTLS as NotTLS
    from toolkit.sandbox.gate.tunnel import is_public as is_public
    from toolkit.sandbox.gate.tunnel import server_name as server_name
    from toolkit.sandbox.gate.usage import GateUsage as GateUsage
    from toolkit.sandbox.gate.usage import ModelCall as ModelCall
    from toolkit.sandbox.gate.usage import SpendLimit as SpendLimit

_HOMES = {
    "toolkit.sandbox.gate.gate": ("Gate", "Refusal"),
    "toolkit.sandbox.gate.http": (
        "Headers",
        "ProtocolError",
        "Refused",
        "body_length",
        "body_pieces",
        "parse_request_head",
    ),
    "toolkit.sandbox.gate.tunnel": ("NotTLS", "is_public", "server_name"),
    "toolkit.sandbox.gate.usage": ("GateUsage", "ModelCall", "SpendLimit"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
