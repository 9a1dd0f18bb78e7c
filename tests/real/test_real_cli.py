"""`RealCLI` starts the right CLI in a private place, and leaves nothing behind whatever happens."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, CLIJSONDecodeError, ProcessError, ResultMessage

from toolkit._base.handles import READ_DIR, make_folders
from toolkit.errors import TestingError
from toolkit.testing import RealCLI, ScriptedAPI, Turn, text, tool_use
from toolkit.testing.real_cli import FAKE_KEY, find_cli

PROGRAMS = {
    "prints garbage and ends": "#!/bin/sh\necho 'Segmentation fault'\necho oops >&2\n",
    "ends at once": "#!/bin/sh\n",
    "prints broken JSON": '#!/bin/sh\necho \'{"type": "sys\'\ncat >/dev/null\n',
    "ends with an error": "#!/bin/sh\nread line\necho 'bad option' >&2\nexit 3\n",
}


@pytest.fixture
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything temporary of a test goes, so that it can be seen to be gone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def listing(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def program(folder: Path, source: str) -> Path:
    path = folder / "claude"
    path.write_text(source, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("prints garbage and ends", TestingError, "the CLI ended without having said anything"),
        ("ends at once", TestingError, "the CLI ended without having said anything"),
        ("prints broken JSON", CLIJSONDecodeError, "Failed to decode JSON"),
        ("ends with an error", ProcessError, "exit code 3"),
    ],
)
async def test_a_cli_that_is_none_gives_an_error_and_leaves_nothing(
    name: str, error: type[Exception], told: str, tmp_path: Path, temp_folder: Path
) -> None:
    cli = RealCLI("http://127.0.0.1:9", cli_path=program(tmp_path, PROGRAMS[name]))
    with pytest.raises(error, match=told) as caught:
        async with cli:
            _ = [message async for message in cli.query("go")]
    assert cli.processes() == []
    assert listing(temp_folder) == []
    if name == "ends with an error":
        assert caught.value.__notes__ == ["the CLI wrote to stderr:\nbad option"]


@pytest.mark.parametrize("mode", [None, 0o644])
def test_a_cli_that_is_missing_or_not_executable_is_refused_before_anything_starts(
    mode: int | None, tmp_path: Path, temp_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "claude"
    if mode is not None:
        program(tmp_path, "#!/bin/sh\n").chmod(mode)
    with pytest.raises(TestingError, match="is not an executable file"):
        RealCLI("http://127.0.0.1:9", cli_path=path)
    monkeypatch.setenv("CLAUDE_BIN", str(path))
    with pytest.raises(TestingError, match="is not an executable file") as caught:
        RealCLI("http://127.0.0.1:9")
    assert caught.value.where == ("named by CLAUDE_BIN",)
    assert listing(temp_folder) == []


def test_the_cli_is_the_given_one_then_claude_bin_then_the_sdks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_BIN", raising=False)
    assert find_cli().parent.name == "_bundled"
    named, given = tmp_path / "named", tmp_path / "given"
    named.mkdir()
    given.mkdir()
    monkeypatch.setenv("CLAUDE_BIN", str(program(named, "#!/bin/sh\n")))
    assert find_cli() == named / "claude"
    assert find_cli(program(given, "#!/bin/sh\n")) == given / "claude"


def test_a_wrong_variable_name_and_a_closed_cli_are_errors() -> None:
    with pytest.raises(TestingError, match="is no variable name"):
        RealCLI("http://127.0.0.1:9", env={"A B": "x"})
    cli = RealCLI("http://127.0.0.1:9")
    with pytest.raises(TestingError, match="is not open"):
        cli.options()
    with cli:
        with pytest.raises(TestingError, match="already open"):
            cli.open()
        with pytest.raises(TestingError, match="is no variable name"):
            cli.options(env={"A;B": "x"})


async def test_nothing_of_the_callers_environment_reaches_the_cli(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key-of-the-machine")
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "x")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "y")
    api = scripted_api([tool_use("Bash", command="env; pwd; echo $HOME")], [text("done")])
    heard = [message async for message in real_cli.query("go", env={"ADDED": "on purpose"})]

    printed = api.tool_results()[0]
    assert isinstance(printed, str)
    assert "MACHINE" not in printed
    assert "AUTH_TOKEN" not in printed
    assert {"ADDED=on purpose", f"ANTHROPIC_API_KEY={FAKE_KEY}"} <= set(printed.splitlines())
    assert printed.splitlines()[-2:] == [str(real_cli.workspace), str(real_cli.home)]
    assert api.requests[0].headers["x-api-key"] == FAKE_KEY
    assert isinstance(heard[-1], ResultMessage)
    opening: Any = heard[0]
    assert opening.data["permissionMode"] == "bypassPermissions"  # also as root
    assert real_cli.processes() == []


async def test_a_process_that_outlives_its_run_is_ended_and_reported(temp_folder: Path) -> None:
    hidden = "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!"
    async with ScriptedAPI([tool_use("Bash", command=hidden)], [text("done")]) as api:
        cli = RealCLI(api).open()
        _ = [message async for message in cli.query("go")]
        (pid,) = cli.processes()
        with pytest.raises(TestingError, match="outlived") as caught:
            await cli.aclose()
    assert "sleep 300" in caught.value.where[0]
    assert pid not in cli.processes()
    assert listing(temp_folder) == []


def test_folders_deeper_than_python_can_recurse_go_with_the_cli(temp_folder: Path) -> None:
    with RealCLI("http://127.0.0.1:9") as cli:
        workspace = os.open(cli.workspace, READ_DIR)
        os.close(make_folders(workspace, b"/".join([b"d"] * 3_000)))
        os.close(workspace)
        (cli.workspace / "locked").mkdir(mode=0o500)
    assert listing(temp_folder) == []


async def test_a_run_left_half_read_is_ended_with_the_cli() -> None:
    async with ScriptedAPI([text("hi")], strict=False) as api:
        async with RealCLI(api) as cli:
            running = cli.query("go")
            await anext(running)
            assert cli.processes() != []
        assert cli.processes() == []


async def test_a_cancelled_run_takes_its_cli_with_it(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    scripted_api(Turn([text("hi"), text("never")], stall_after=1))
    heard = asyncio.Event()

    async def listen() -> None:
        async for message in real_cli.query("go"):
            if isinstance(message, AssistantMessage):
                heard.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(heard.wait(), 60)
    assert real_cli.processes() != []
    task.cancel()
    await asyncio.wait([task], timeout=20)
    assert task.cancelled()
    assert real_cli.processes() == []


def test_a_sync_program_can_run_the_cli_from_its_own_loop() -> None:
    with ScriptedAPI([text("hi")]) as api, RealCLI(api) as cli:

        async def run() -> list[Any]:
            return [message async for message in cli.query("go")]

        assert asyncio.run(run())[-1].result == "hi"
