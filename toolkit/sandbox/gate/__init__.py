"""The one way out of a jail: to the model API, and to the domains that were allowed by name."""

from toolkit.sandbox.gate.client import HostPorts as HostPorts
from toolkit.sandbox.gate.gate import Gate as Gate
from toolkit.sandbox.gate.http import (
    Headers as Headers,
    ProtocolError as ProtocolError,
    Refused as Refused,
    WatchedReader as WatchedReader,
    body_length as body_length,
    body_pieces as body_pieces,
    read_head as read_head,
)
from toolkit.sandbox.gate.pacing import Pace as Pace, Permit as Permit
from toolkit.sandbox.gate.refusals import Refusal as Refusal
from toolkit.sandbox.gate.secrets import REMOVED as REMOVED, Remover as Remover, Secrets as Secrets
from toolkit.sandbox.gate.tunnel import (
    NotTLS as NotTLS,
    is_public as is_public,
    join as join,
    server_name as server_name,
)
from toolkit.sandbox.gate.usage import GateUsage as GateUsage, ModelCall as ModelCall, SpendLimit as SpendLimit
