"""The only way out of the jail: a unix socket that leads to the model API and nowhere else.

    async with Gate("https://api.anthropic.com", key, socket_path) as gate:
        ...                       # the agent talks to socket_path with a dummy key
    print(gate.usage, gate.audit)

The gate runs on the host. It passes `POST /v1/messages` and
`/v1/messages/count_tokens`, puts the real credential in place of whatever came,
streams the answer unbuffered and counts its tokens. With `domains` it also opens
TLS tunnels (CONNECT) to exactly these. All else is refused and kept in `audit`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from toolkit.errors import SandboxError
from toolkit.sandbox.domains import parse_domains
from toolkit.sandbox.gate.client import Client, HostPorts, Traffic
from toolkit.sandbox.gate.http import Refused, RequestHead, WatchedReader
from toolkit.sandbox.gate.pacing import Bookkeeper, Pace
from toolkit.sandbox.gate.policy import REQUEST_HEADERS
from toolkit.sandbox.gate.refusals import Refusal
from toolkit.sandbox.gate.secrets import Secrets
from toolkit.sandbox.gate.upstream import Upstream
from toolkit.sandbox.gate.usage import GateUsage, Ledger, ModelCall, SpendLimit
from toolkit.sandbox.host import BaseURL, checked_headers

MAX_BODY_BYTES = 32 * 1024 * 1024
"""The Messages API's own limit."""
KEPT_REFUSALS = 1_000
_LONGEST_SOCKET_PATH = 107
_BACKLOG = 512


class Gate:
    """A proxy to one model API on a unix socket, as an async context manager.

    Args:
        api_url: Base URL of the model API; a path in it becomes a prefix. None for a gate that leads to `domains` only.
        api_key: Sent as `x-api-key`; None sends none.
        socket_path: Where to listen. Must not exist; created for the owner only, removed at the end.
        proxy_path: Where to listen besides, for commands: from there no request gets to the model API, only tunnels are
            opened.
        domains: Hosts that may be reached through TLS tunnels besides.
        offline: Refuse requests that make the API itself reach out: server-side tools, remote MCP
            servers, URLs in content. Independent of `domains`.
        max_body: Largest request body in bytes.
        spend_limit: When to stop passing requests on.
        headers: Added to every request on the host side, for example an `authorization`. Kept secret like the key,
            but for those that a client may send as well, such as `anthropic-beta`.
        ca_file: Certificate authority of an API that the system does not know.
        ports: Ports of the host's loopback that may be reached besides.
        max_connections: Connections served at once; further ones are closed.
        word: What clients have to send as `x-api-key`; None where all who reach the socket may ask.
        books: Who is told of each model call before it leaves and when it has ended.
        pace: Who says when a model call leaves. One that meets the API's limit then waits here and is sent again.
    """

    def __init__(
        self,
        api_url: str | None,
        api_key: str | None,
        socket_path: Path,
        *,
        proxy_path: Path | None = None,
        domains: Sequence[str] = (),
        offline: bool = True,
        max_body: int = MAX_BODY_BYTES,
        spend_limit: SpendLimit | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
        ports: HostPorts | None = None,
        max_connections: int = 256,
        pace: Pace | None = None,
        books: Bookkeeper | None = None,
        word: str | None = None,
    ) -> None:
        if max_body <= 0 or max_connections <= 0:
            raise SandboxError("the gate's limits are not above zero", fix="Give them as positive counts")
        self.socket_path = Path(socket_path)
        self.domains = parse_domains(domains)
        self.on_refused: Callable[[Refusal], None] | None = None
        """Called with each refusal, in the gate's own loop; it must not raise."""
        self.reached = asyncio.Event()
        """Set when somebody connects; whoever waits for the next one clears it."""
        self._ledger = Ledger(spend_limit)
        self._audit: deque[Refusal] = deque(maxlen=KEPT_REFUSALS)
        self._max_connections = max_connections
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: dict[Path, asyncio.Server] = {}
        self._upstream = None if api_url is None else Upstream(BaseURL.parse(api_url), ca_file=ca_file)
        key = {} if api_key is None else {"x-api-key": api_key}
        credentials = {**checked_headers(key), **checked_headers(headers or {})}
        self._traffic = Traffic(
            upstream=self._upstream,
            ledger=self._ledger,
            credentials=credentials,
            secrets=Secrets(
                one
                for name, value in credentials.items()
                if name not in REQUEST_HEADERS
                for one in _secrets(name, value)
            ),
            domains=self.domains,
            ports=ports or HostPorts(),
            is_offline=offline,
            max_body=max_body,
            refuse=self._note,
            pace=pace,
            books=books,
            word=word,
        )
        self._leads = {self.socket_path: self._traffic}
        if proxy_path is not None:
            self._leads[proxy_path] = replace(self._traffic, upstream=None)

    @property
    def audit(self) -> tuple[Refusal, ...]:
        """What was refused, oldest first; the last thousand. `usage.refused` has the full count."""
        return tuple(self._audit)

    @property
    def usage(self) -> GateUsage:
        """Requests, tokens and cost so far, calls under way included."""
        return self._ledger.snapshot()

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The finished model calls, oldest first; the last ten thousand."""
        return tuple(self._ledger.calls)

    @property
    def retry_after(self) -> float | None:
        """Seconds that the model API asked to wait when it refused last; None since it answered, or was not told."""
        return self._traffic.retry_after

    async def __aenter__(self) -> Gate:
        loop = asyncio.get_running_loop()
        try:
            for path, traffic in self._leads.items():
                listener = _bind(path)
                protocol = partial(self._protocol, traffic)
                try:
                    self._servers[path] = await loop.create_unix_server(protocol, sock=listener, backlog=_BACKLOG)
                except BaseException:
                    listener.close()
                    path.unlink(missing_ok=True)
                    raise
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening, end every connection, remove the sockets. Usage and audit stay readable."""
        if not self._servers:
            return
        servers, self._servers = self._servers, {}
        for path, server in servers.items():
            server.close()
            path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._upstream is not None:
            self._upstream.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                for server in servers.values():
                    await server.wait_closed()

    def _protocol(self, traffic: Traffic) -> asyncio.StreamReaderProtocol:
        loop = asyncio.get_running_loop()
        return asyncio.StreamReaderProtocol(WatchedReader(loop), partial(self._connected, traffic), loop=loop)

    def _connected(self, traffic: Traffic, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, WatchedReader)
        self.reached.set()
        if len(self._tasks) >= self._max_connections:
            self._note(None, Refused(503, "busy", f"more than {self._max_connections} connections"))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(Client(traffic, reader, writer).serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note(self, head: RequestHead | None, refused: Refused) -> None:
        self._ledger.refused += 1
        refusal = Refusal.of(head, refused)
        self._audit.append(refusal)
        if self.on_refused is not None:
            self.on_refused(refusal)


def _bind(path: Path) -> socket.socket:
    """A bound socket that only its owner may use; nobody can connect before it listens."""
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise SandboxError(
            f"the gate's socket path is longer than {_LONGEST_SOCKET_PATH} bytes",
            where=[str(path)],
            fix="Choose a shorter folder, for example below the system's temporary folder",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
    except OSError as wrong:
        listener.close()
        raise SandboxError(
            f"the gate cannot listen on {path}",
            where=[os.strerror(wrong.errno or 0)],
            fix="Name a path that does not exist yet, in a folder you may write",
        ) from None
    listener.setblocking(False)
    return listener


def _secrets(name: str, value: str) -> Iterator[str]:
    """What is secret in a header: what follows `Bearer` or `Basic` and the password in it, or all of its value."""
    scheme, _, said = value.partition(" ")
    yield said or value if name == "authorization" else value
    if name == "authorization" and scheme.lower() == "basic":
        with contextlib.suppress(ValueError):
            yield base64.b64decode(said, validate=True).decode().partition(":")[2]
