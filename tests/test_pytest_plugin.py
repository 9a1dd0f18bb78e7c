"""The fixtures are there without configuration, in every mode, and a bad script fails the test that has it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from toolkit import Toolbox, tool
from toolkit.tools import Reply

pytest_plugins = ["pytester"]

IMPORTS = """
import pytest
from toolkit.testing import text, tool_use
"""
# pytest-asyncio itself warns when its loop scope is not chosen.
STRICTLY = ("-W", "error", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")


def outcomes(pytester: pytest.Pytester, source: str, *arguments: str) -> tuple[dict[str, int], str]:
    """Run a test file in a process of its own, warnings as errors."""
    pytester.makepyfile(IMPORTS + source)
    done = pytester.runpytest_subprocess(*STRICTLY, *arguments, timeout=120)
    return done.parseoutcomes(), done.stdout.str()


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_fixtures_work_in_both_modes_of_pytest_asyncio(pytester: pytest.Pytester, mode: str) -> None:
    marker = "@pytest.mark.asyncio\n" if mode == "strict" else ""
    source = f"""
{marker}async def test_real(scripted_api, real_cli):
    api = scripted_api([tool_use("Bash", command="echo hi")], [text("done")])
    heard = [message async for message in real_cli.query("go")]
    assert api.tool_results() == ["hi"]
    assert heard[-1].result == "done"

{marker}async def test_fake(fake_cli):
    heard = [message async for message in fake_cli([text("done")]).query("go")]
    assert heard[-1].result == "done"

{marker}async def test_tool(call_tool):
    from toolkit import tool
    @tool
    def double(number: int) -> int:
        "Double a number."
        return 2 * number
    assert (await call_tool(double, number=4)).text == "8"

{marker}async def test_left_half_read(scripted_api, real_cli):
    scripted_api([text("done")], strict=False)
    async for message in real_cli.query("go"):
        break

def test_sync(scripted_api):
    assert scripted_api(strict=False).url.startswith("http://127.0.0.1:")
"""
    assert outcomes(pytester, source, "-o", f"asyncio_mode={mode}")[0] == {"passed": 5}


def test_a_script_that_does_not_fit_fails_the_test_and_nothing_else(pytester: pytest.Pytester) -> None:
    source = """
async def test_left_over(fake_cli):
    [message async for message in fake_cli([text("one")], [text("two")]).query("go")]

async def test_ran_out(fake_cli):
    [message async for message in fake_cli([tool_use("Nothing")]).query("go")]

async def test_swallowed(fake_cli):
    try:
        [message async for message in fake_cli([tool_use("Nothing")]).query("go")]
    except Exception:
        pass

async def test_own_error(fake_cli):
    fake_cli([text("never used")])
    assert 1 == 2, "the assertion of the test"

async def test_lenient(fake_cli):
    fake_cli([text("never used")], strict=False)

def test_no_model(real_cli):
    real_cli.options()
"""
    counted, printed = outcomes(pytester, source, "-o", "asyncio_mode=auto")
    assert counted == {"failed": 5, "passed": 1}
    assert "the script was not used up: 1 of 2 turns left" in printed
    assert printed.count("the script ran out: model call 2 has no turn") >= 2
    assert "last tool result '<tool_use_error>Error: No such tool available: Nothing" in printed
    assert "the assertion of the test" in printed
    assert "real_cli has no model to talk to" in printed


def test_a_session_that_uses_no_fixture_loads_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import sys

def test_nothing():
    loaded = [name for name in sys.modules if name.startswith("toolkit.testing.")]
    assert loaded == ["toolkit.testing.pytest_plugin"]
    assert "claude_agent_sdk" not in sys.modules
    assert "mcp" not in sys.modules
""")
    done = pytester.runpytest_subprocess(*STRICTLY, timeout=60)
    done.assert_outcomes(passed=1)


def test_the_fixtures_are_listed_with_what_they_do(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess("--fixtures", timeout=60)
    for name in ("scripted_api", "real_cli", "fake_cli", "call_tool", "workspace"):
        done.stdout.fnmatch_lines([f"{name} -- *pytest_plugin.py*"])


def test_a_workspace_is_prepared_from_files_or_a_folder_and_gone_afterwards(pytester: pytest.Pytester) -> None:
    source = """
places = []

def test_files(workspace, tmp_path):
    section = workspace({"app.py": "x = 1\\n", "data/raw.bin": b"\\0\\xff"}, exclude_glob=["*.log"])
    host = section.mounts[0].host_path
    assert (section.temp_dir / "project/app.py").read_text() == "x = 1\\n"
    assert (section.temp_dir / "project/data/raw.bin").read_bytes() == b"\\0\\xff"
    (section.temp_dir / "project/app.py").write_text("x = 2\\n")
    assert (host / "app.py").read_text() == "x = 1\\n"
    section.apply()
    assert (host / "app.py").read_text() == "x = 2\\n"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.log").touch()
    other = workspace(mine, mount_path="here")
    assert (other.temp_dir / "here/a.log").exists()
    assert [path.name for path in workspace().temp_dir.iterdir()] == ["project"]
    places.extend([section.temp_dir, section.state_dir, other.temp_dir, other.state_dir])

def test_nothing_is_left_of_them():
    assert len(places) == 4
    assert not [place for place in places if place.exists()]

@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out"])
def test_a_file_cannot_leave_the_project(workspace, name):
    from toolkit.errors import TestingError
    with pytest.raises(TestingError, match="lies outside"):
        workspace({name: "x"})

@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": 5}, "'a': 5 is no file"),
        ({5: "a"}, "5: 'a' is no file"),
        ({"a": "x", "a/b": "y"}, "the file 'a/b' cannot be written: "),
        ({"a/b": "x", "a": "y"}, "the file 'a' cannot be written: "),
        ({"": "x"}, "the file '' cannot be written: "),
        ({"a\\0b": "x"}, "cannot be written: "),
        ({"a": "\\ud800"}, "the file 'a' cannot be written: "),
        (["a"], "is neither files nor a folder"),
        (5, "5 is neither files nor a folder"),
    ],
)
def test_what_is_no_file_is_refused_in_words(workspace, files, words):
    from toolkit.errors import TestingError
    with pytest.raises(TestingError) as caught:
        workspace(files)
    assert words in caught.value.what
    assert caught.value.fix
"""
    assert outcomes(pytester, source)[0] == {"passed": 14}


DOCUMENTS = [Path(__file__).parents[1] / name for name in ("docs/testing.md", "README.md")]
SNIPPETS = [
    code
    for document in DOCUMENTS
    for code in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    if "def test_" in code
]


def test_the_tests_in_the_documents_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{f"test_snippet_{number}": code for number, code in enumerate(SNIPPETS)})
    done = pytester.runpytest_subprocess(*STRICTLY, "-o", "asyncio_mode=auto", timeout=120)
    assert len(SNIPPETS) >= 5
    done.assert_outcomes(passed=len(SNIPPETS))


@tool
def shout(words: str, times: int = 1) -> str:
    """Say it loudly."""
    return " ".join([words.upper()] * times)


async def test_call_tool_calls_a_tool_or_a_box_as_a_client_would(call_tool: Callable[..., Awaitable[Reply]]) -> None:
    box = Toolbox("voices", [shout])
    assert (await call_tool(shout, words="hi", times=2)).text == "HI HI"
    assert (await call_tool(box, "shout", words="hi")).text == "HI"
    wrong = await call_tool(shout, words="hi", times="many")
    assert wrong.is_error
    assert "times" in wrong.text
    assert (await call_tool(box, "whisper", words="hi")).is_error
