"""Verified runs through the real CLI in the real jail: a failing test, a cheating agent, failures that pass."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from toolkit import Limits, Retry, Toolbox, Verify, WorkspacePath, tool
from toolkit.runs import InPlace, RunResult, load_run, run, start
from toolkit.testing import ScriptedAPI, Status, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = needs_jail

TEST = """
import unittest
from prices import total

class Prices(unittest.TestCase):
    def test_the_total_has_the_tax(self):
        self.assertEqual(total(100), 119)
"""
CHECK = "python3 -m unittest discover -s tests -t . 2>&1"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "tests" / "data").mkdir(parents=True)
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "data" / "deep.txt").write_text("deep", encoding="utf-8")
    (folder / "tests" / "test_prices.py").write_text(TEST, encoding="utf-8")
    (folder / "prices.py").write_text("def total(net):\n    return net\n", encoding="utf-8")
    return folder


def copy_of(project: Path) -> WorkspaceSection:
    return WorkspaceSection([HostMount(project)], allowed_host_roots=[project.parent])


def bash(command: str) -> list[dict[str, Any]]:
    return [tool_use("Bash", command=command)]


def fix(rate: str) -> list[dict[str, Any]]:
    return bash(f"printf 'def total(net):\\n    return round(net * {rate})\\n' > prices.py")


async def go(api: ScriptedAPI, **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run("Mend it.", api_url=api.url, api_key="sk-none", **options), 150)


async def test_the_first_fix_is_wrong_and_the_second_right(project: Path) -> None:
    with ScriptedAPI(fix("1.16"), [text("Done.")], fix("1.19"), [text("Now it is.")]) as api:
        done = await go(api, workspace=copy_of(project), verify=Verify(CHECK, attempts=3), protect=["tests/"])
        asked = [request for request in api.requests if request.contains("AssertionError: 116 != 119")]
    assert (done.code, done.verified, done.text) == ("ok", True, "Now it is."), done.attempts
    assert [one.exit_code for one in done.attempts] == [1, 0]
    assert "AssertionError: 116 != 119" in done.attempts[0].output
    assert asked[0].contains("Mend it."), "the failure was told in another conversation"
    assert [change.path for change in done.changes or ()] == ["shop/prices.py"]
    assert len(done.calls) == 4 == len({call.key for call in done.calls})
    assert done.cost is not None
    assert done.cost == pytest.approx(sum(one.cost or 0.0 for one in done.attempts))
    assert done.total.total == sum(one.tokens.total for one in done.attempts)


ATTEMPTS_TO_CHEAT = """
echo pass > tests/test_prices.py
echo x > tests/new.py
rm -rf tests
mv tests other
ln -f prices.py tests/test_prices.py
cp /dev/null tests/data/deep.txt
mkdir tests/more
chmod -R 777 tests
mkdir gone; mv tests gone/
ln -s /tmp tests/link
git rm -rf tests; git stash -u
unshare -rm sh -c 'mount -o remount,rw,bind tests && echo x > tests/new.py'
python3 -c "import os; os.rename('tests', 'elsewhere')"
ln tests/test_prices.py linked; echo pass > linked
mv ../shop ../other && mkdir ../shop
""".strip().splitlines()


async def test_a_cheating_agent_cannot_change_what_is_protected(project: Path) -> None:
    edits = [
        [tool_use("Read", file_path=f"{project}/tests/test_prices.py")],
        [tool_use("Write", file_path=f"{project}/tests/test_prices.py", content="pass")],
        [tool_use("Edit", file_path=f"{project}/tests/test_prices.py", old_string="119", new_string="100")],
        [tool_use("Write", file_path=f"{project}/tests/new.py", content="pass")],
    ]
    tries = [bash(command) for command in ATTEMPTS_TO_CHEAT]
    with ScriptedAPI(*edits, *tries, bash("cat tests/test_prices.py tests/data/deep.txt"), [text("Done.")]) as api:
        done = await go(api, workspace=copy_of(project), verify=CHECK, protect=["tests/"])
        assert api.requests[-1].contains("self.assertEqual(total(100), 119)")
    assert (done.code, done.verified) == ("unverified", False)
    assert "AssertionError: 100 != 119" in done.attempts[0].output
    assert done.changes is not None
    assert not done.changes.below("shop/tests")
    assert load_run(done.run).apply().changes is not None
    assert (project / "tests/test_prices.py").read_text(encoding="utf-8") == TEST


async def test_a_single_deep_file_is_protected_and_its_folder_is_not(project: Path) -> None:
    commands = (
        "echo no > tests/data/deep.txt; mv tests/data moved; mv tests moved; rm tests/data/deep.txt; "
        "echo yes > tests/data/beside.txt && echo added; cat tests/data/deep.txt"
    )
    with ScriptedAPI(bash(commands), [text("Done.")]) as api:
        done = await go(api, workspace=copy_of(project), protect=["tests/data/deep.txt"])
        assert api.requests[-1].contains("added")
    found = {(change.kind, change.path) for change in done.changes or ()}
    assert ("added", "shop/tests/data/beside.txt") in found
    assert {kind for kind, _ in found} == {"added"}, "it was changed, moved or removed"


@tool
def spoil(path: WorkspacePath) -> str:
    """Write a file."""
    path.write_text("spoilt", encoding="utf-8")
    return "spoilt"


@tool(read_only=True)
def look(path: WorkspacePath) -> str:
    """Read a file."""
    return path.read_text(encoding="utf-8")


async def test_tools_of_this_process_cannot_either_and_what_they_do_anyway_is_set_back(project: Path) -> None:
    section = copy_of(project)

    @tool
    def sneak() -> str:
        """Write to the host's side of the copy."""
        (section.temp_dir / "shop/tests/test_prices.py").write_text("", encoding="utf-8")
        (section.temp_dir / "shop/tests/planted.py").write_text("", encoding="utf-8")
        return "done"

    box = Toolbox("mine", [spoil, look, sneak])
    with ScriptedAPI(
        bash("ln -s tests link"),
        [tool_use("mcp__mine__spoil", path="tests/test_prices.py")],
        [tool_use("mcp__mine__spoil", path="link/test_prices.py")],
        [tool_use("mcp__mine__spoil", path=f"{project}/tests/new.py")],
        [tool_use("mcp__mine__look", path="tests/data/deep.txt")],
        [tool_use("mcp__mine__sneak")],
        [text("Done.")],
    ) as api:
        done = await go(api, workspace=section, tools=[box], verify=CHECK, protect=["tests"])
        told = api.tool_results()
    assert ["is protected" in str(answer) for answer in told[1:4]] == [True] * 3, told
    assert told[4] == "deep"
    assert "AssertionError: 100 != 119" in done.attempts[0].output, "it was not verified with the original bytes"
    assert [change.path for change in done.changes or ()] == ["shop/link"]
    warned = [event.data["what"] for event in load_run(done.run).events() if event.name == "lifecycle.warning"]
    assert warned[-1] == "1 protected path changed outside of the jail, and set back to what they were: shop/tests"


async def test_a_tool_that_verifies_finds_the_agents_files_by_its_paths(project: Path) -> None:
    @tool
    def has_tax(prices: WorkspacePath = Path("prices.py")) -> bool:
        """Whether the total has the tax."""
        return "1.19" in prices.read_text(encoding="utf-8")

    with ScriptedAPI(fix("1.19"), [text("Done.")]) as api:
        done = await go(api, workspace=copy_of(project), verify=has_tax)
    assert (done.code, done.cause) == ("ok", None)


async def test_nothing_of_the_agent_lives_while_it_is_verified(project: Path) -> None:
    left = "(while :; do echo 'def total(net): return 119' > prices.py; sleep 0.01; done) > /dev/null 2>&1 & echo left"
    with ScriptedAPI(
        bash(left), bash("rm -f prices.py; printf 'def total(net):\\n  return 0\\n' > other.py"), [text("Done.")]
    ) as api:
        check = "ps ax -o comm= | grep -c sleep; test ! -e /run/toolkit/api.sock && ! env | grep -i anthropic"
        done = await go(api, workspace=copy_of(project), verify=check)
    assert (done.code, done.attempts[0].exit_code) == ("ok", 0), done.attempts
    assert done.attempts[0].output == "0"


async def test_a_budget_is_for_all_attempts(project: Path) -> None:
    with ScriptedAPI(
        Turn(fix("1.1"), usage={"input_tokens": 600}),
        Turn([text("Done.")], usage={"input_tokens": 600}),
        otherwise=[text("More.")],
    ) as api:
        verify = Verify(CHECK, attempts=9)
        done = await go(api, workspace=copy_of(project), verify=verify, limits=Limits(tokens=1000))
        assert len([one for one in api.requests if one.contains("Mend it.")]) == 2
    assert (done.code, done.verified, len(done.attempts)) == ("budget", False, 1)
    assert "ended with exit code 1: FAILED" in (done.cause or "")


async def test_turns_are_for_all_attempts(project: Path) -> None:
    with ScriptedAPI(fix("1.1"), [text("Done.")], fix("1.2"), fix("1.3"), otherwise=[text("More.")]) as api:
        verify = Verify(CHECK, attempts=9)
        done = await go(api, workspace=copy_of(project), verify=verify, limits=Limits(turns=4))
    assert (done.code, done.verified, len(done.attempts)) == ("turn_limit", False, 1)


async def test_a_verification_in_place_works_on_a_copy(project: Path) -> None:
    with ScriptedAPI(fix("1.19"), [text("Done.")]) as api:
        done = await go(api, workspace=InPlace(project), verify=f"{CHECK} && pwd && touch made", protect=["tests"])
    assert (done.code, done.verified) == ("ok", True)
    assert done.attempts[0].output.endswith(str(project))
    assert not (project / "made").exists()
    assert "1.19" in (project / "prices.py").read_text(encoding="utf-8")


async def test_throttled_is_tried_again_when_the_api_says(project: Path) -> None:
    with ScriptedAPI(
        Turn(fix("1.19"), id="msg_1"),
        Status(529, headers={"retry-after": "2"}),
        Turn([text("Done.")], id="msg_2"),
    ) as api:
        async with start(
            "Mend it.",
            api_url=api.url,
            api_key="sk-none",
            workspace=copy_of(project),
            verify=CHECK,
            retry=Retry(times=2, wait=0.1),
        ) as live:
            events = [event async for event in live]
            done = await live.result()
        last = api.requests[-1]
    assert (done.code, done.verified, done.retries) == ("ok", True, ("throttled",))
    retried = [event.data for event in events if event.name == "lifecycle.retry" and event.data.get("code")]
    assert [(one["code"], one["delay_ms"], one["status"], one["of"]) for one in retried] == [
        ("throttled", 2000, 529, 2)
    ]
    assert last.contains("Mend it.")
    assert last.contains("Go on where you stopped.")
    assert sorted(call.id for call in done.calls) == ["msg_1", "msg_2"]


async def test_what_stays_throttled_keeps_its_code(project: Path) -> None:
    with ScriptedAPI(otherwise=Status(429)) as api:
        done = await go(api, workspace=copy_of(project), verify=CHECK, retry=Retry(times=1, wait=0.1))
    assert (done.code, done.verified, done.attempts, done.retries) == ("throttled", False, (), ("throttled",))


async def test_a_cli_that_is_killed_is_started_again_and_goes_on(project: Path) -> None:
    with ScriptedAPI(
        Turn(fix("1.19"), id="msg_1"),
        Turn([text("thinking"), text("more")], id="msg_2", stall_after=1),
        Turn([text("Done.")], id="msg_3"),
    ) as api:
        options: dict[str, Any] = {"workspace": copy_of(project), "verify": CHECK}
        options |= {"api_url": api.url, "api_key": "sk-none", "retry": Retry(times=1, wait=0.1)}
        async with start("Mend it.", **options) as live:
            killed = False
            async for event in live:
                if event.name == "assistant.text" and event.id == "msg_2" and not killed:
                    killed = True
                    _kill_cli()
            done = await live.result()
        last = api.requests[-1]
    assert (done.code, done.verified, done.retries) == ("ok", True, ("crashed",)), done
    assert [call.id for call in done.calls] == ["msg_1", "msg_2", "msg_3"]
    assert done.cost is None
    assert done.known_cost > 0
    assert last.contains("Go on where you stopped.")


def _kill_cli() -> None:
    """Kill the CLI of this process's run, in its jail."""
    for pid in filter(str.isdecimal, (entry.name for entry in Path("/proc").iterdir())):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            marked = b"TOOLKIT_JAIL=" in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if marked and words[0].endswith(b"/claude") and _is_below(int(pid), os.getpid()):
            os.kill(int(pid), signal.SIGKILL)


def _is_below(pid: int, above: int) -> bool:
    while pid > 1:
        if pid == above:
            return True
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


KILLED = """
import asyncio, os, sys
from toolkit import Verify, run
from toolkit.workspace import HostMount, WorkspaceSection
from pathlib import Path

def check(ws):
    if Path(sys.argv[3]).exists():
        os.kill(os.getpid(), 9)
    Path(sys.argv[3]).touch()
    return "not yet"

project = Path(sys.argv[2])
section = WorkspaceSection([HostMount(project)], allowed_host_roots=[project.parent])
asyncio.run(run("Mend it.", api_url=sys.argv[1], api_key="k", workspace=section, verify=Verify(check, attempts=5)))
"""


async def test_killed_between_attempts_it_is_crashed_and_goes_on_without_being_billed_again(
    project: Path, tmp_path: Path
) -> None:
    with ScriptedAPI(
        Turn(fix("1.1"), id="msg_1"),
        Turn([text("Done.")], id="msg_2"),
        Turn(fix("1.2"), id="msg_3"),
        Turn([text("Done.")], id="msg_4"),
        Turn(fix("1.19"), id="msg_5"),
        Turn([text("Done.")], id="msg_6"),
    ) as api:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, api.url, str(project), str(tmp_path / "seen"), stdout=-3, stderr=-3
        )
        assert await asyncio.wait_for(process.wait(), 120) == -signal.SIGKILL
        stored = load_run("last")
        crashed = stored.result()
        assert (stored.state, crashed.code, crashed.verified) == ("crashed", "crashed", False)
        assert [one.output for one in crashed.attempts] == ["not yet"]
        assert [call.id for call in crashed.calls] == ["msg_1", "msg_2", "msg_3", "msg_4"]
        assert crashed.known_cost > 0
        done = await go(api, resume=crashed.session, verify=CHECK)
    assert (done.code, done.verified) == ("ok", True), done
    assert [call.id for call in done.calls] == ["msg_5", "msg_6"]
    assert [change.path for change in done.changes or ()] == ["shop/prices.py"]
