"""The one way out of a jail: to the model API, and to the domains that were allowed by name."""

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
