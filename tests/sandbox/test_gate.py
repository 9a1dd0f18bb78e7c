"""What passes the gate, what does not, and what it counts."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.upstream import HELLO, Jailed, loopback_api
from toolkit.sandbox import Gate

KEY = "real-key-of-the-host"


async def test_a_message_passes_with_the_real_key_in_place_of_whatever_came(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        stolen = "x-api-key: dummy\r\nauthorization: Bearer dummy\r\ncookie: a=b\r\nproxy-authorization: x\r\n"
        reply = await agent.post(HELLO, path="/v1/messages?beta=true", headers=stolen)

    assert reply.status == 200
    (seen,) = api.seen
    assert seen.line == "POST /v1/messages?beta=true HTTP/1.1"
    assert seen.headers["x-api-key"] == KEY
    assert not {"authorization", "cookie", "proxy-authorization"} & set(seen.headers)
    assert (gate.usage.requests, gate.usage.input, gate.usage.output) == (1, 10, 5)
    assert not (tmp_path / "s").exists()
