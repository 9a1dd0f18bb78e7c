"""`confine` gives the SDK a CLI that works and cannot get out, or refuses and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SystemMessage, query

from tests.sandbox.jails import needs_jail, needs_root
from toolkit import Limits
from toolkit.errors import SandboxError, SettingsError, UnconfinedError
from toolkit.sandbox import Confinement, JailLimits, SandboxSettings, confine, python_environment
from toolkit.sandbox.jail import proof
from toolkit.sandbox.limits import jail_limits
from toolkit.testing import ScriptedAPI, text, tool_use

KEY = "made-up-key-that-stays-outside"
QUIET = {"CLAUDE_CODE_MAX_RETRIES": "0"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def jails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that jails keep their state in while a test runs; short, for the socket in it."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _owner(path: Path) -> int:
    return path.stat().st_uid


async def _prompt(jail: Confinement, **more: Any) -> tuple[dict[str, Any], ResultMessage]:
    init: dict[str, Any] = {}
    async for message in query(prompt="Go.", options=ClaudeAgentOptions(**{**jail.options(), **more})):
        if isinstance(message, SystemMessage) and message.subtype == "init":
            init = message.data
        elif isinstance(message, ResultMessage):
            return init, message
    raise AssertionError("the run had no result")


@needs_jail
async def test_a_run_works_inside_and_the_key_stays_outside(workspace: Path, jails: Path) -> None:
    look = tool_use(
        "Bash", command="echo made > file; cat ~/.claude/* /proc/*/environ 2>/dev/null | tr '\\0' ' '; ls ~"
    )
    with ScriptedAPI([look], [text("done")]) as api:
        async with confine(workspace, api_url=api.url, api_key=KEY, env={**QUIET, "NOTE": "hello"}) as jail:
            init, result = await _prompt(jail)
            assert jail.report.ok
        sent = json.dumps([dict(request) for request in api.requests])

        assert result.result == "done"
        assert init["permissionMode"] == "bypassPermissions"
        assert sorted(init["tools"]) == sorted(jail.options()["tools"])
        assert {request.headers["x-api-key"] for request in api.requests} == {KEY}
        assert KEY not in sent
        assert "NOTE=hello" in sent
    assert (workspace / "file").read_text(encoding="ascii") == "made\n"
    assert _names(workspace) == ["file"]
    assert _owner(workspace / "file") == os.geteuid()
    assert jail.gate.usage.calls == 2
    assert jail.exceeded is None
    assert _names(jails) == []


@needs_jail
async def test_an_mcp_server_of_the_cli_is_inside_too(workspace: Path, tmp_path: Path, jails: Path) -> None:
    secret, outside = tmp_path / "secret", tmp_path / "outside"
    secret.write_text("not for you", encoding="ascii")
    server = (
        "import os, pathlib, socket, sys\n"
        f"seen = os.path.exists({str(secret)!r}), {KEY!r} in str(os.environ), os.getuid(), os.listdir('/sys') if os.path.isdir('/sys') else []\n"
        f"open({str(workspace / 'seen')!r}, 'w').write(repr(seen))\n"
        f"open({str(outside)!r}, 'w').write('x')\n"
    )
    program = workspace / "server.py"
    program.write_text(server, encoding="utf-8")
    with ScriptedAPI([text("done")]) as api:
        async with confine(workspace, api_url=api.url, api_key=KEY, readable=python_environment(), env=QUIET) as jail:
            await _prompt(jail, mcp_servers={"spy": {"command": sys.executable, "args": [str(program)]}})

    assert (workspace / "seen").read_text(encoding="utf-8") == "(False, False, 1000, [])"
    assert not outside.exists()


@needs_jail
async def test_a_read_only_profile_lets_nothing_change(workspace: Path, jails: Path) -> None:
    (workspace / "file").write_text("given", encoding="ascii")
    change = tool_use("Bash", command="sh -c 'echo x > file; touch new; rm file'")
    with ScriptedAPI([tool_use("Bash", command="cat file")], [change], [text("done")]) as api:
        async with confine(workspace, "read-only", api_url=api.url, api_key=KEY, env=QUIET, tools=["Bash"]) as jail:
            await _prompt(jail)
        read = str(api.tool_results()[0])

    assert "given" in read
    assert _names(workspace) == ["file"]
    assert (workspace / "file").read_text(encoding="ascii") == "given"


@needs_jail
async def test_only_the_named_domain_is_passed_on_by_the_gate(workspace: Path, jails: Path) -> None:
    fetch = "for host in allowed.example other.example; do curl -sm 5 https://$host/ -o /dev/null; done; curl -sm 5 http://allowed.example/"
    with ScriptedAPI([tool_use("Bash", command=fetch)], [text("done")]) as api:
        async with confine(
            workspace, "allowlist", ["allowed.example"], api_url=api.url, api_key=KEY, env=QUIET
        ) as jail:
            await _prompt(jail)

    refused = {(refusal.request.split()[1].partition(":")[0], refusal.code) for refusal in jail.gate.audit}
    assert ("other.example", "domain") in refused
    # The gate went to look for it; it does not exist.
    assert {code for host, code in refused if host == "allowed.example"} == {"address"}


@needs_jail
async def test_a_kept_home_is_the_callers_again(workspace: Path, tmp_path: Path, jails: Path) -> None:
    home = tmp_path / "home"
    with ScriptedAPI([text("done")]) as api:
        async with confine(workspace, api_url=api.url, api_key=KEY, home=home, env=QUIET) as jail:
            _, result = await _prompt(jail)

    kept = [path.stem for path in (home / ".claude" / "projects").rglob("*.jsonl")]
    assert kept == [result.session_id]
    assert {path.lstat().st_uid for path in home.rglob("*")} == {os.geteuid()}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"profile": "ofline"}, "ofline"),
        ({"profile": "allowlist"}, "allowlist"),
        ({"profile": "allowlist", "domains": ["https://example.com"]}, "https://example.com"),
        ({"profile": "allowlist", "domains": ["*.co.uk"]}, "*.co.uk"),
        ({"domains": ["example.com"]}, "offline"),
        ({"api_url": "api.example.com"}, "api.example.com"),
        ({"api_url": "ftp://example.com"}, "ftp://example.com"),
        ({"api_key_file": "open-key"}, "can be read by others"),
        ({"api_key_file": "no-key"}, "no-key"),
        ({"api_key_file": "key", "api_key": "x"}, "both"),
        ({"readable": ["missing"]}, "missing"),
        ({"readable": ["/"]}, "too much"),
        ({"require": ["memry"]}, "memry"),
        ({"env": {"A=B": "c"}}, "A=B"),
        ({"env": {"ANTHROPIC_API_KEY": "c"}}, "ANTHROPIC_API_KEY"),
        ({"cli_path": "no-cli"}, "no-cli"),
        ({"tools": ["Bsah"]}, "the CLI has no tool 'Bsah'; did you mean 'Bash'"),
        ({"tools": ["--bare"]}, "the CLI has no tool '--bare'"),
        ({"env": {"CLAUDE_CODE_SIMPLE": "1"}}, "CLAUDE_CODE_SIMPLE"),
        ({"settings": SandboxSettings.parse({"permissions": {"deny": ["Bsah"]}})}, "'Bsah'; did you mean 'Bash'"),
        ({"allow_control_files": ["x"]}, "'x'"),
    ],
)
def test_bad_input_is_named_and_nothing_is_started(
    workspace: Path, jails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], names: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, mode in (("key", 0o600), ("open-key", 0o644)):
        Path(name).write_text("k\n", encoding="ascii")
        Path(name).chmod(mode)

    with pytest.raises((SandboxError, SettingsError)) as caught:
        confine(workspace, **{"api_key": None if "api_key_file" in arguments else KEY, **arguments})

    assert names in caught.value.what
    assert caught.value.fix
    assert _names(jails) == []


@needs_jail
async def test_a_jail_that_is_not_proven_is_refused_and_cleared_away(
    workspace: Path, jails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "file").touch()
    monkeypatch.setattr(proof, "_PASSED", {})
    monkeypatch.setattr(
        "toolkit.sandbox.jail.walls._namespaces", lambda *, terminal: ["--unshare-user", "--unshare-pid"]
    )

    with pytest.raises(UnconfinedError) as caught:
        async with confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY):
            raise AssertionError("it was opened")

    assert "every namespace is the jail's own" in caught.value.rules
    assert "refusing to start" in caught.value.what
    assert _names(jails) == []
    assert _owner(workspace / "file") == os.geteuid()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"env": {"A": 1}}, "env: 'A' and its value are texts"),
        ({"env": {5: "x"}}, "env: 5 and its value are texts"),
        ({"settings": 5}, "settings: int is neither SandboxSettings nor a mapping"),
        ({"settings": {"sandbox": {"enabld": True}}}, "Did you mean 'sandbox.enabled'"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_in_words(workspace: Path, options: Any, says: str) -> None:
    with pytest.raises(SandboxError, match=says):
        confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY, **options)


def test_settings_may_be_a_mapping(workspace: Path) -> None:
    given: dict[str, Any] = {"permissions": {"deny": ["WebFetch"]}}
    made = [
        confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY, settings=settings)
        for settings in (given, SandboxSettings.parse(given))
    ]
    assert made[0]._settings == made[1]._settings
    assert "WebFetch" in made[0]._settings


async def test_without_bubblewrap_nothing_is_started(
    workspace: Path, jails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jail = confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(UnconfinedError, match="not proven") as caught:
        await jail.__aenter__()

    assert "apt install bubblewrap" in str(caught.value)
    assert _names(jails) == []


@needs_jail
async def test_a_confinement_is_used_once_and_only_while_open(workspace: Path, jails: Path) -> None:
    jail = confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY, limits=JailLimits(cpu_seconds=60))
    with pytest.raises(SandboxError, match="not open"):
        jail.options()
    async with jail:
        assert jail.options()["cwd"] == workspace
        assert {state.name for state in jail.limits} >= {"cpu", "memory"}
    with pytest.raises(SandboxError, match="already used"):
        await jail.__aenter__()


@needs_jail
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.06, 0.12])
async def test_a_start_that_is_cancelled_leaves_nothing(
    workspace: Path, jails: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(proof, "_PASSED", {})
    (workspace / "file").touch()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds), confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY):
            await asyncio.sleep(60)

    assert _names(jails) == []
    assert {_owner(workspace), _owner(workspace / "file")} == {os.geteuid()}


@needs_jail
async def test_a_strict_umask_does_not_matter(workspace: Path, jails: Path) -> None:
    before = os.umask(0o077)
    try:
        with ScriptedAPI([tool_use("Bash", command="whoami; npm --version; touch file")], [text("done")]) as api:
            async with confine(workspace, api_url=api.url, api_key=KEY, env=QUIET) as jail:
                await _prompt(jail)
            read = str(api.tool_results()[0])
    finally:
        os.umask(before)

    assert read.startswith("agent\n")
    assert "ermission denied" not in read
    assert _names(workspace) == ["file"]


@needs_jail
async def test_a_link_left_in_a_kept_home_is_not_followed(workspace: Path, tmp_path: Path, jails: Path) -> None:
    home, victim = tmp_path / "home", tmp_path / "victim"
    home.mkdir(mode=0o700)
    victim.write_text("mine", encoding="ascii")
    (home / ".gitconfig").symlink_to(victim)

    async with confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY, home=home):
        pass

    assert victim.read_text(encoding="ascii") == "mine"
    assert _owner(victim) == os.geteuid()


@needs_jail
@needs_root
async def test_a_workspace_that_a_killed_run_left_can_be_used_again(workspace: Path, jails: Path) -> None:
    os.chown(workspace, 1_879_050_000, 1_879_050_000)

    async with confine(workspace, api_url="http://127.0.0.1:9", api_key=KEY):
        pass

    assert _owner(workspace) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workspace": 5}, "the workspace int(…) is no folder"),
        ({"limits": {"memory": 1}}, "a jail has no limit 'memory'; did you mean 'memory_bytes'?"),
        ({"limits": 5}, "limits is JailLimits(…), not int(…)"),
        ({"limits": Limits(seconds=3)}, "limits is JailLimits(…), not Limits(…)"),
        ({"require": "memory"}, "Write require=['memory']"),
        ({"tools": "Bash"}, "Write tools=['Bash']"),
        ({"readable": Path("/usr")}, "Write readable=[PosixPath('/usr')]"),
        ({"allow_control_files": "CLAUDE.md"}, "Write allow_control_files=['CLAUDE.md']"),
        ({"host_ports": 8000}, "Write host_ports=[8000]"),
    ],
    ids=str,
)
def test_a_first_mistake_is_answered_in_words(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        confine(**{"workspace": tmp_path, "api_key": "none", **wrong})
    assert said in str(caught.value)


def test_limits_may_be_a_mapping(tmp_path: Path) -> None:
    assert jail_limits({"memory_bytes": 2**30}) == JailLimits(memory_bytes=2**30)
    confine(tmp_path, api_key="none", limits={"memory_bytes": 2**30})
