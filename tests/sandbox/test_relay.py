"""What a server in the jail says is heard before it goes on, and one that says too much is cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolkit.sandbox.relay import Relay, relay, relayed


async def ends(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


async def test_a_line_goes_on_after_it_was_heard_and_one_that_may_not_pass_is_kept_back(tmp_path: Path) -> None:
    heard: list[tuple[str, bytes]] = []

    def hear(name: str, line: bytes) -> bool:
        heard.append((name, line))
        return b"secret" not in line

    async with asyncio.timeout(60), Relay(tmp_path / "s", hear):
        reader, writer = await ends(tmp_path / "s")
        writer.write(b"notes\none\ntw")
        assert await reader.readline() == b"one\n"
        writer.write(b"o\nsecret\nlast")
        writer.write_eof()
        assert await reader.read() == b"two\nlast"
        writer.close()
    assert heard == [("notes", line) for line in (b"one\n", b"two\n", b"secret\n", b"last")]
    assert not (tmp_path / "s").exists()


async def test_a_line_without_an_end_is_not_held_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_HELD_BYTES", 1000)
    async with asyncio.timeout(60), Relay(tmp_path / "s", lambda name, line: True):
        first, second = await ends(tmp_path / "s"), await ends(tmp_path / "s")
        for _, writer in (first, second):
            writer.write(b"notes\nok\n" + b"x" * 600)
        # Together it is too much: one of the two is cut off, and what it held is given back.
        reading = [asyncio.create_task(reader.read()) for reader, _ in (first, second)]
        done, going = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [b"ok\n"]
        left = (first, second)[reading.index(going.pop())]
        left[1].write(b"x" * 300 + b"\n")
        left[1].write_eof()
        assert await reading[(first, second).index(left)] == b"ok\n" + b"x" * 900 + b"\n"
        for _, writer in (first, second):
            writer.close()


async def test_more_connections_than_a_run_needs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_CONNECTIONS", 1)
    async with asyncio.timeout(60), Relay(tmp_path / "s", lambda name, line: True):
        reader, writer = await ends(tmp_path / "s")
        writer.write(b"notes\none\n")
        assert await reader.readline() == b"one\n"
        late, other = await ends(tmp_path / "s")
        assert await late.read() == b""
        other.close()
        writer.write(b"two\n")
        assert await reader.readline() == b"two\n"
        writer.close()


async def test_the_end_of_the_relay_ends_what_is_open(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        async with Relay(tmp_path / "s", lambda name, line: True):
            reader, writer = await ends(tmp_path / "s")
            writer.write(b"notes\none\n")
            assert await reader.readline() == b"one\n"
        assert await reader.read() == b""
        writer.close()


def test_a_relayed_server_has_its_own_command_behind_ours() -> None:
    made = relayed("notes", {"command": "serve", "args": ["-v"], "env": {"A": "1"}})
    assert made == {"command": "/run/toolkit/apart/server", "args": ["notes", "serve", "-v"], "env": {"A": "1"}}


async def test_one_that_connects_as_the_relay_ends_is_let_go(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        async with Relay(tmp_path / "s", lambda name, line: True):
            reader, writer = await ends(tmp_path / "s")
        assert await reader.read() == b""
        writer.close()


async def test_a_relay_whose_end_is_cut_short_has_stopped_listening(tmp_path: Path) -> None:
    relay = await Relay(tmp_path / "s", lambda name, line: True).__aenter__()
    async with asyncio.timeout(60):
        reader, writer = await ends(tmp_path / "s")
        closing = asyncio.create_task(relay.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert await reader.read() == b""
        writer.close()
