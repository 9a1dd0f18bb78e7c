"""The real CLI, fed each profile, refuses what the profile forbids: judged by what happened, not by messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolkit.sandbox import Gate, profile
from toolkit.testing import RealCLI, ScriptedAPI, Turn, text, tool_use

RECIPE = json.dumps({"sandbox": {"enabled": True, "network": {"allowedDomains": []}}})
SECRET = "token-that-lies-outside"
CONTROL = (".mcp.json", ".claude/settings.json", ".git/hooks/pre-commit", ".git/config", "CLAUDE.md", "CLAUDE.local.md")

PLANT = """python3 - <<'END'
import os
for path in {paths}:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        open(path, "a").write("planted")
    except OSError as error:
        print(path, error)
END"""
VISIT = """python3 -c 'import urllib.request as u, os; o = u.build_opener(u.ProxyHandler(dict(http=os.environ["HTTP_PROXY"])))
os.environ.update(no_proxy="", NO_PROXY=""); print(o.open("http://127.0.0.1:{port}/", timeout=3).read())'"""


@dataclass
class Done:
    """What a run did, seen from the host."""

    visits: int
    has_read_secret: bool
    outside: set[str]
    inside: dict[str, str]
    results: str


@asynccontextmanager
async def host_port() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A service of the host on loopback, and what reached it."""
    visits: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.readline())
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhost service")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], visits
    server.close()


async def try_everything(settings: str) -> Done:
    """Play an agent that tries to read, write and reach what it should not."""
    async with host_port() as (port, visits):
        with RealCLI("http://set-below") as cli:
            outside = cli.root / "outside"
            outside.mkdir()
            (outside / "secret.txt").write_text(SECRET, encoding="utf-8")
            (cli.workspace / ".git" / "hooks").mkdir(parents=True)
            for name in (".git/config", "CLAUDE.md", "notes.txt"):
                (cli.workspace / name).write_text("mine\n", encoding="utf-8")
            calls = [
                tool_use("Bash", command="echo made > made.txt"),
                tool_use("Bash", command=PLANT.format(paths=[*CONTROL, str(outside / "bash.txt")])),
                tool_use("Bash", command=VISIT.format(port=port)),
                tool_use("Bash", command=f"echo out > {outside}/free.txt", dangerouslyDisableSandbox=True),
                tool_use("Read", file_path=str(outside / "secret.txt")),
                tool_use("Write", file_path=str(outside / "write.txt"), content="x"),
                tool_use("Write", file_path="sub/.mcp.json", content="planted"),
                tool_use("Write", file_path="written.txt", content="x"),
            ]
            with ScriptedAPI(calls, otherwise=[text("done")]) as api:
                options = cli.options(settings=settings, env={"ANTHROPIC_BASE_URL": api.url})
                async for _ in cli.query("go", options):
                    pass
                results = json.dumps(api.tool_results())
            found = {path: path.read_text("utf-8", "replace") for path in cli.workspace.rglob("*") if path.is_file()}
            return Done(
                visits=len(visits),
                has_read_secret=SECRET in results,
                outside={path.name for path in outside.iterdir()} - {"secret.txt"},
                inside={str(path.relative_to(cli.workspace)): content for path, content in found.items()},
                results=results,
            )


@pytest.mark.parametrize("name", ["offline", "allowlist", "read-only", "minimal"])
async def test_the_cli_refuses_what_a_profile_forbids(name: str) -> None:
    settings = profile(name, domains=("example.com",) if name == "allowlist" else ())
    done = await try_everything(settings.as_json())

    assert (done.visits, done.has_read_secret, done.outside) == (0, False, set()), done.results
    assert [path for path, content in done.inside.items() if "planted" in content] == []
    assert ("made.txt" in done.inside, "written.txt" in done.inside) == (
        (False, False) if name == "read-only" else (True, True)
    )
    assert done.inside["notes.txt"] == "mine\n"


async def test_the_popular_recipe_leaks_in_the_same_attempts() -> None:
    done = await try_everything(RECIPE)

    assert done.visits == 1
    assert done.has_read_secret
    assert {"write.txt", "free.txt"} <= done.outside
    assert "planted" in done.inside["CLAUDE.md"]
    assert "planted" in done.inside["sub/.mcp.json"]


async def test_a_misspelt_key_switches_the_sandbox_off_as_the_validator_says() -> None:
    done = await try_everything(json.dumps({"sandbox": {"enabld": True, "failIfUnavailable": True}}))
    assert "bash.txt" in done.outside


async def test_a_hidden_path_is_hidden_from_tools_and_from_commands(tmp_path: Path) -> None:
    for folder, content in (("keys", SECRET), ("open", "nothing-to-hide")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(content, encoding="utf-8")
    show = "python3 -c 'print(open(\"{}/file\").read())'"
    calls = [
        tool_use("Bash", command=show.format(tmp_path / "open")),
        tool_use("Bash", command=show.format(tmp_path / "keys")),
        tool_use("Read", file_path=str(tmp_path / "keys" / "file")),
    ]
    settings = profile("offline", deny_read=[str(tmp_path / "keys")]).as_json()
    with ScriptedAPI(calls, otherwise=[text("done")]) as api, RealCLI(api) as cli:
        async for _ in cli.query("go", settings=settings):
            pass
        results = json.dumps(api.tool_results())
    assert "nothing-to-hide" in results  # settings hide what they name, no more
    assert SECRET not in results


async def test_the_cli_works_through_the_gate_and_every_call_is_counted(tmp_path: Path) -> None:
    turns = [
        Turn([tool_use("Bash", command="echo hi")], usage={"input_tokens": 100, "output_tokens": 7}),
        Turn([text("done")], usage={"input_tokens": 120, "output_tokens": 5, "cache_read_input_tokens": 30}),
    ]
    with ScriptedAPI(*turns) as api:
        async with Gate(api.url, "real-key", tmp_path / "s") as gate:
            with RealCLI("http://gate", env={"ANTHROPIC_UNIX_SOCKET": str(tmp_path / "s")}) as cli:
                async for _ in cli.query("go", settings=profile("offline").as_json()):
                    pass
        assert api.tool_results() == ["hi"]
        assert {request.headers["x-api-key"] for request in api.requests} == {"real-key"}
    assert gate.audit == ()
    assert [(call.input, call.output, call.cache_read) for call in gate.calls] == [(100, 7, 0), (120, 5, 30)]
