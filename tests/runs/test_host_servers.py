"""A server on the host's loopback is reached by the CLI where it was allowed by name, and by nothing else."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.upstream import Jailed, make_certificate
from tests.serving._client import ServedHttp
from toolkit.errors import ToolkitError
from toolkit.runs import RunSpec, load_run, run, start
from toolkit.runs.turn.servers import Servers
from toolkit.sandbox import Gate, loopback_port
from toolkit.sandbox.gate import HostPorts
from toolkit.testing import ScriptedAPI, text, tool_use

SOURCE = """
@tool
def shout(word: str) -> str:
    '''Say it loudly.'''
    return word.upper()

box = Toolbox("loud", [shout])
"""


async def test_a_server_that_was_allowed_answers_the_model_and_no_command(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE) as served:
        place = f"127.0.0.1:{served.port}"
        tries = [
            f"curl -s -m 5 --noproxy '*' http://{place}/mcp",
            f"curl -s -m 5 --noproxy '' -p -x http://localhost:3128 http://{place}/mcp",
            f"curl -s -m 5 --noproxy '' -x http://localhost:3128 http://{place}/mcp",
        ]
        command = "; ".join(f"{one} -d '{{}}' && echo reached" for one in tries) + "; echo tried"
        calls = [tool_use("mcp__loud__shout", word="hello"), tool_use("Bash", command=command)]
        with ScriptedAPI(calls, [text("done")]) as api:
            servers: dict[str, Any] = {"loud": {"type": "http", "url": served.url}}
            reach: dict[str, Any] = {"profile": "allowlist", "domains": ["example.com"]}
            asked = run("go", api_url=api.url, api_key="not-a-key", servers=servers, allow_servers=["loud"], **reach)
            result = await asyncio.wait_for(asked, 90)
            answers = [str(block["content"]) for block in api.requests[-1].tool_results()]

    assert result.code == "ok", result.debug
    assert "HELLO" in answers[0]
    assert "tried" in answers[1]
    assert "HELLO" not in answers[1]
    assert "jsonrpc" not in answers[1]
    assert {one.what for one in result.refused} >= {f"CONNECT {place}"}


async def test_a_server_on_this_machine_is_refused_until_it_is_named() -> None:
    servers = {"loud": {"type": "http", "url": "http://localhost:8765/mcp"}}
    with pytest.raises(ToolkitError) as caught:
        await run("go", api_key="not-a-key", servers=servers)
    assert caught.value.what == "server 'loud' is on this machine, which the jail does not reach"
    assert caught.value.fix == 'To let the CLI use it: allow_servers=["loud"]'

    assert RunSpec("go", servers=servers, allow_servers=["loud"]).host_ports() == [8765]
    with pytest.raises(ToolkitError):
        RunSpec("go", servers=servers, allow_servers=["loud", "laud"])
    with pytest.raises(ToolkitError):
        RunSpec("go", servers={"far": {"type": "http", "url": "https://mcp.example.com/"}}, allow_servers=["far"])


async def test_a_server_on_this_machine_that_comes_later_is_refused_as_one_that_was_there_from_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, ScriptedAPI([text("1")], [text("2")]) as api:
        late = {"type": "http", "url": f"http://127.0.0.1:{other.getsockname()[1]}/mcp"}
        async with asyncio.timeout(60), start("go", api_url=api.url, api_key="not-a-key") as live:
            await live.result()
            with pytest.raises(ToolkitError) as caught:
                await live.mcp_set_servers({"loud": late})
            assert (await live.send("Go on.")).ok
    assert caught.value.what == "server 'loud' is on this machine, which the jail does not reach"
    assert caught.value.fix == 'To let the CLI use it: allow_servers=["loud"]'


def test_a_later_server_is_reached_as_one_at_its_port_was_from_the_start() -> None:
    first = {"type": "http", "url": "https://localhost:8443/a"}
    spec = RunSpec("go", servers={"a": first}, allow_servers=["a"])
    servers = Servers(spec, lambda *told, **data: None)
    servers.check_later({"a": {**first, "url": "https://localhost:8443/b"}})
    for other in ("http://localhost:8443/a", "https://127.0.0.1:8443/a"):
        with pytest.raises(ToolkitError, match="reaches with another scheme, host or ca_file"):
            servers.check_later({"a": {**first, "url": other}})


async def test_an_allowed_server_that_is_down_is_said_to_be_down() -> None:
    with socket.socket() as silent, ScriptedAPI(strict=False) as api:
        silent.bind(("127.0.0.1", 0))  # nobody else can have it, and nothing listens there
        port = silent.getsockname()[1]
        servers = {"loud": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}}
        asked = run("go", api_url=api.url, api_key="not-a-key", servers=servers, allow_servers=["loud"])
        result = await asyncio.wait_for(asked, 90)
    assert (result.code, len(api.requests)) == ("server_failed", 0)
    assert f"nothing listens at port {port} of this machine's loopback interface" in result.debug["detail"]
    assert "Start it before the run, or let the run do without it" in result.debug["detail"]
    assert "domain" not in result.debug["detail"]


CHANGING = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

streams = sys.argv[1] == "streams"
certificate = sys.argv[2:]
count = 0


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self):
        global count
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        answers = {
            "initialize": {
                "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {
                "tools": [{"name": "first", "description": "Version %d." % count, "inputSchema": {"type": "object"}}]
            },
            "tools/call": {"content": [{"type": "text", "text": "first ran"}]},
        }
        said = [{"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}]
        if asked["method"] == "tools/call":
            count += 1
            said.insert(0, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        if streams:
            body = "".join("event: message\\r\\ndata: " + json.dumps(one) + "\\r\\n\\r\\n" for one in said).encode()
        else:
            body = json.dumps(said[-1]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
if certificate:
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@asynccontextmanager
async def changing(*certificate: Path) -> AsyncIterator[int]:
    """The port of a server that changes its tool at every call."""
    command = (sys.executable, "-c", CHANGING, "streams", *map(str, certificate))
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield int(await asyncio.wait_for(server.stdout.readline(), 30))
    finally:
        server.kill()
        await server.wait()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_tool_that_a_server_on_this_machine_changes_is_told_and_refused(tmp_path: Path, scheme: str) -> None:
    key, cert = make_certificate(tmp_path, "localhost")
    is_tls = scheme == "https"
    async with changing(*((cert, key) if is_tls else ())) as port:
        server = {"type": "http", "url": f"{scheme}://localhost:{port}/mcp"} | ({"ca_file": cert} if is_tls else {})
        # The CLI asks for the new list when it likes: the second call is made when it has.
        with ScriptedAPI(*[turn] * 25, strict=False) as api:
            asked = run("go", api_url=api.url, api_key="k", servers={"s": server}, allow_servers=["s"], run_id="run-h")
            result = await asyncio.wait_for(asked, 90)
            results = api.tool_results()
    assert result.code == "ok", result.debug
    assert results[0] == "first ran"
    assert "has changed it since the run began" in str(results[-1])
    [changed] = [event for event in load_run("run-h").events() if event.name == "server.changed"]
    assert (changed.id, changed.data["tools"]) == ("s", ["mcp__s__first"])


@pytest.mark.parametrize(
    ("host", "trusts", "why"),
    [
        ("localhost", False, "its certificate is not accepted: self-signed certificate"),
        ("127.0.0.1", True, "its certificate is not accepted: IP address mismatch"),
    ],
)
async def test_a_server_on_this_machine_has_to_prove_its_name(
    tmp_path: Path, host: str, trusts: bool, why: str
) -> None:
    key, cert = make_certificate(tmp_path, "localhost")
    async with changing(cert, key) as port:
        server = {"type": "http", "url": f"https://{host}:{port}/mcp"} | ({"ca_file": str(cert)} if trusts else {})
        with ScriptedAPI(strict=False) as api:
            asked = run("go", api_url=api.url, api_key="k", servers={"s": server}, allow_servers=["s"])
            result = await asyncio.wait_for(asked, 90)
    assert (result.code, len(api.requests)) == ("server_failed", 0)
    assert why in result.debug["detail"]
    assert 'Name the authority that signed its certificate ("ca_file" beside its url' in result.debug["detail"]


async def test_a_port_that_is_heard_carries_no_tls_from_end_to_end(tmp_path: Path) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read())
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ports = HostPorts((port,), "gate:word", lambda server, message: True)
    gate = Gate("http://127.0.0.1:9", None, tmp_path / "s", ports=ports)
    async with gate, Jailed(tmp_path / "s") as agent, asyncio.timeout(60):
        word = "proxy-authorization: Basic Z2F0ZTp3b3Jk"
        agent.writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.0\r\n{word}\r\n\r\n".encode())
        await agent.reader.readuntil(b"\r\n\r\n")
        agent.writer.write(b"\x16\x03\x01\x00\x05hello")
        assert await agent.reader.read() == b""
        assert await heard == b""
    assert [one.code for one in gate.audit] == ["unheard"]
    server.close()


@pytest.mark.parametrize(
    ("servers", "what"),
    [
        ({"a": {"type": "http", "url": "http://127.0.0.1:8443/", "ca_file": "ca.pem"}}, "'ca_file' is about TLS"),
        ({"a": {"type": "http", "url": "https://127.0.0.1:8443/", "ca_file": 5}}, "it is a path"),
        (
            {"a": {"type": "http", "url": "https://127.0.0.1:8443/", "ca_file": "/none.pem"}},
            "'/none.pem' cannot be used",
        ),
        (
            {
                "a": {"type": "http", "url": "https://127.0.0.1:8443/"},
                "b": {"type": "http", "url": "http://127.0.0.1:8443/"},
            },
            "server 'b' is at port 8443 of this machine, where another is spoken to differently",
        ),
    ],
)
def test_how_tls_is_spoken_with_a_server_is_checked_before_anything_starts(servers: Any, what: str) -> None:
    with pytest.raises(ToolkitError, match=re.escape(what)):
        RunSpec("go", servers=servers, allow_servers=list(servers))


def turn(request: Any) -> list[dict[str, Any]]:
    """Call the tool until it is refused, at most some times."""
    told = request.tool_results()
    is_refused = any("has changed it" in str(block["content"]) for block in told)
    return [text("done")] if is_refused or request.answers > 20 else [tool_use("mcp__s__first")]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:8765/mcp", 8765),
        ("http://LOCALHOST:8765", 8765),
        ("http://mcp.example.com/", None),
        ("https://10.0.0.1:8765/", None),
    ],
)
def test_a_loopback_url_is_known_by_its_host(url: str, port: int | None) -> None:
    assert loopback_port(url) == port


@pytest.mark.parametrize("url", ["http://[::1]:8765/", "http://127.0.0.2:80/", "http://a.localhost:1/", "http://[x"])
def test_a_loopback_url_that_the_jail_cannot_have_is_refused(url: str) -> None:
    with pytest.raises(ToolkitError):
        loopback_port(url)


@pytest.mark.parametrize(
    ("target", "said", "status"),
    [
        ("127.0.0.1:{port}", "Basic Z2F0ZTp3b3Jk", 200),
        ("127.0.0.1:{port}", "Basic Z2F0ZTp3b3Jr", 403),
        ("127.0.0.1:{port}", None, 403),
        ("localhost:{port}", "Basic Z2F0ZTp3b3Jk", 403),
        ("127.0.0.1:22", "Basic Z2F0ZTp3b3Jk", 403),
        ("10.0.0.1:{port}", "Basic Z2F0ZTp3b3Jk", 403),
    ],
)
async def test_a_port_of_the_host_is_for_who_knows_the_word(
    tmp_path: Path, target: str, said: str | None, status: int
) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.read(5))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    gate = Gate("http://127.0.0.1:9", None, tmp_path / "s", ports=HostPorts((port,), "gate:word"))
    async with gate, Jailed(tmp_path / "s") as agent, asyncio.timeout(60):
        line = f"proxy-authorization: {said}\r\n" if said else ""
        agent.writer.write(f"CONNECT {target.format(port=port)} HTTP/1.0\r\n{line}\r\n".encode())
        assert (await agent.reader.readuntil(b"\r\n\r\n")).startswith(f"HTTP/1.1 {status} ".encode())
        if status == 200:
            agent.writer.write(b"gate!")
            assert await agent.reader.read() == b"hello gate!"
    server.close()
