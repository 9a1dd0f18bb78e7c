"""Every example runs as its README says, with a scripted model in place of the real one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolkit.testing import ScriptedAPI, text, tool_use

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one example, as a user would have it."""
    copy = tmp_path / str(request.param)
    shutil.copytree(EXAMPLES / request.param, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("place", [name], indirect=True)


def clean_env(place: Path, api: ScriptedAPI | None = None) -> dict[str, str]:
    """A user's environment with a private home and the scripted model for an API."""
    home = place.parent / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = {**kept, "HOME": str(home), "TOOLKIT_HOME": str(home / "toolkit"), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    env |= {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
    if api is not None:
        env |= {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "not-a-key"}
    return env


def run(place: Path, *command: str, api: ScriptedAPI | None = None) -> str:
    """What a command prints in the example's folder."""
    done = subprocess.run(
        [sys.executable, *command], cwd=place, env=clean_env(place, api), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_has_a_readme_and_a_test() -> None:
    folders = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
    here = Path(__file__).read_text(encoding="utf-8")
    assert all((EXAMPLES / name / "README.md").is_file() and f'@example("{name}")' in here for name in folders)


@example("decorate_and_hand_to_sdk")
def test_decorated_tools_work_in_the_sdk(place: Path) -> None:
    script = [
        [tool_use("mcp__notes__add", title="Milk", tags=["shopping"]), tool_use("mcp__notes__find", tag="shopping")],
        [text("Milk.")],
    ]
    with ScriptedAPI(*script) as api:
        assert run(place, "main.py", api=api) == "Milk.\n"
        assert api.tool_results() == ["kept note 1: Milk", "- Milk"]
    assert run(place, "-m", "toolkit", "call", "notes.py:box", "add", "title=Milk", "tags=shopping") == (
        "kept note 1: Milk\n"
    )


@example("serve_over_stdio")
def test_served_tools_answer_the_command_line_and_a_client(place: Path) -> None:
    words = ["-m", "toolkit", "call", "tools.py", "word_count", "text=three short words"]
    assert run(place, *words) == "3\n"
    listed = json.loads(run(place, "-m", "toolkit", "inspect", "tools.py", "--json"))
    assert "word_count" in str(listed)
    asyncio.run(_ask_over_stdio(place))


async def _ask_over_stdio(place: Path) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolkit", "serve", str(place / "tools.py")],
        env=clean_env(place),
        cwd=place,
    )
    async with asyncio.timeout(60), stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        answer: Any = await session.call_tool("tail", {"path": "README.md", "lines": 1})
        assert answer.content[0].text == "```"


@example("unattended_workspace")
def test_an_agent_works_on_a_copy_and_its_work_comes_back(place: Path) -> None:
    prices = str(place / "shop" / "prices.py")  # in the jail the copy stands there
    edit = tool_use("Edit", file_path=prices, old_string="(0.1 if member else 1)", new_string="(0.9 if member else 1)")
    report = tool_use("StructuredOutput", cause="the rest was left out", fixed=True)
    with ScriptedAPI([tool_use("Read", file_path=prices)], [edit], [report]) as api:
        printed = run(place, "main.py", api=api)
    assert "ok Review(cause='the rest was left out', fixed=True)" in printed
    assert "prices.py" in printed
    assert "0.9 if member" in (place / "shop" / "prices.py").read_text(encoding="utf-8")


@example("test_your_tools_offline")
def test_the_offline_tests_pass(place: Path) -> None:
    assert "3 passed" in run(place, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.fixture
def haiku() -> Iterator[ScriptedAPI]:
    write = tool_use("Bash", command="echo locks > haiku.txt; cat haiku.txt")
    with ScriptedAPI([write], [text("written")]) as api:
        yield api


@example("approve_from_another_terminal")
async def test_a_question_is_answered_from_another_terminal(place: Path, haiku: ScriptedAPI) -> None:
    env = clean_env(place, haiku)

    async def begin(*command: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=place, env=env, stdout=pipe, stderr=pipe
        )

    async with asyncio.timeout(90):
        running = await begin("main.py")
        asked = ""
        for _ in range(60):  # until the run is there to be watched
            watching = await begin("-m", "toolkit", "approvals", "watch", "haiku", "--json")
            assert watching.stdout is not None
            asked = (await watching.stdout.readline()).decode()
            if asked:
                break
            await watching.wait()
        assert json.loads(asked)["asked"]["tool"] == "Bash"
        answering = await begin("-m", "toolkit", "approvals", "answer", "haiku", "ask-1", "allow")
        assert await answering.wait() == 0
        printed, problems = await running.communicate()
        await watching.communicate()
        await answering.communicate()
    assert printed.decode() == "ok written\n", problems.decode()
    assert haiku.tool_results() == ["locks"]


@example("many_runs")
def test_many_runs_share_a_limit_and_keep_their_order(place: Path) -> None:
    def answer(request: Any) -> Any:
        topic = next(
            name for name in ("locks", "queues", "clocks") if f"Explain {name}" in json.dumps(request["messages"])
        )
        return [text(f"About {topic}.")]

    with ScriptedAPI(otherwise=answer, strict=False) as api:
        printed = run(place, "main.py", api=api)
    assert printed.splitlines()[:3] == [f"{name}: ok: About {name}." for name in ("locks", "queues", "clocks")]


@example("serve_for_a_team")
def test_a_team_is_served_from_the_configuration_behind_a_token(place: Path) -> None:
    import urllib.error
    import urllib.request

    tokens = place / "tokens"
    tokens.write_text("alice all 0123456789abcdef0123\n", encoding="utf-8")
    tokens.chmod(0o600)
    more = ["--host", "127.0.0.1", "--port", "0", "--token-file", str(tokens)]
    argv = [sys.executable, "-m", "toolkit", "serve", "--config", "servers.toml", *more]
    process = subprocess.Popen(argv, cwd=place, stderr=subprocess.PIPE, text=True, env=clean_env(place))
    assert process.stderr is not None
    try:
        base = process.stderr.readline().split()[-1].removesuffix("/mcp")
        with urllib.request.urlopen(f"{base}/health", timeout=30) as page:
            assert json.load(page) == {"live": True, "ready": True, "tools": 2}
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{base}/metrics", timeout=30)
        with caught.value as refused:
            assert refused.code == 401
        asked = urllib.request.Request(f"{base}/metrics", headers={"Authorization": "Bearer 0123456789abcdef0123"})
        with urllib.request.urlopen(asked, timeout=30) as page:
            assert b"toolkit_tools 2" in page.read()
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


@example("resources_and_prompts")
def test_resources_and_prompts_are_read_from_the_command_line(place: Path) -> None:
    said = (place / "README.md").read_text(encoding="utf-8")
    for words in (["notes://1"], ["summarise", "id=1"]):
        argv = [sys.executable, "-m", "toolkit", "call", "notes.py", *words]
        done = subprocess.run(
            argv, cwd=place, env=clean_env(place), capture_output=True, text=True, timeout=60, check=True
        )
        assert f"$ toolkit call notes.py {' '.join(words)}\n{done.stdout}" in said
