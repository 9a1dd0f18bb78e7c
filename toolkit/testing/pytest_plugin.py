"""Fixtures for pytest, there without any configuration once the package is installed.

    scripted_api   start a scripted model: api = scripted_api([text("hi")])
    real_cli       the real CLI in a private home, talking to that model
    fake_cli       play the CLI itself: cli = fake_cli([text("hi")])
    call_tool      call a decorated tool as a client would
    workspace      a prepared workspace: section = workspace({"app.py": "x = 1\\n"})

They are plain fixtures, so they work with pytest-asyncio in either mode, with
another runner and in sync tests. A script that ran out or was not used up fails
the test itself. A test session that uses none of them loads nothing of this.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from toolkit.errors import TestingError
    from toolkit.testing import FakeCLI, RealCLI, ScriptedAPI
    from toolkit.testing.model.script import Scripted
    from toolkit.tools import Reply
    from toolkit.workspace import WorkspaceSection

_SCRIPTED: pytest.StashKey[list[Scripted]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the scripts of a test as the last part of the test."""
    __tracebackhide__ = True
    try:
        result = yield
    except Exception as error:
        for scripted in item.stash.get(_SCRIPTED, []):
            scripted.raise_problem(error)
        raise
    for scripted in item.stash.get(_SCRIPTED, []):
        scripted.raise_problem()
    return result


@pytest.fixture
def scripted_api(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedAPI]]:
    """Start a scripted Messages API; takes the arguments of `ScriptedAPI` and can be called more than once."""
    from toolkit.testing import ScriptedAPI

    scripted: list[Scripted] = request.node.stash.setdefault(_SCRIPTED, [])

    def start(*turns: Any, **settings: Any) -> ScriptedAPI:
        api = ScriptedAPI(*turns, **settings).start()
        scripted.append(api)
        return api

    yield start
    for one in scripted:
        if isinstance(one, ScriptedAPI):
            one.stop()


@pytest.fixture
def real_cli(request: pytest.FixtureRequest, scripted_api: object) -> Iterator[RealCLI]:
    """The real CLI, talking to the API that `scripted_api` started last."""
    from toolkit.testing import RealCLI

    with RealCLI(_Latest(request.node.stash[_SCRIPTED])) as cli:
        yield cli


@pytest.fixture
def fake_cli(request: pytest.FixtureRequest) -> Callable[..., FakeCLI]:
    """Make a `FakeCLI`; takes its arguments and can be called more than once."""
    scripted: list[Scripted] = request.node.stash.setdefault(_SCRIPTED, [])

    def make(*steps: Any, **settings: Any) -> FakeCLI:
        from toolkit.testing import FakeCLI

        cli = FakeCLI(*steps, **settings)
        scripted.append(cli)
        return cli

    return make


@pytest.fixture
def call_tool() -> Callable[..., Awaitable[Reply]]:
    """Call a tool as a client would: `await call_tool(my_tool, title="hi")`, or `call_tool(box, "my_tool", …)`."""

    async def call(target: Any, name: str | None = None, /, **arguments: Any) -> Reply:
        from toolkit.tools import Toolbox

        box = target if isinstance(target, Toolbox) else Toolbox("tools", [target])
        return await box.call(name or next(iter(box.tools)), arguments)

    return call


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., WorkspaceSection]]:
    """Prepare a workspace over a folder `project` with the given files, or over a folder you have.

    Further arguments are those of `HostMount`, and it can be called more than once. `section.mounts[0].host_path` is
    the folder on the host, `section.temp_dir` the workspace, which is taken away when the test is over. What is on the
    host stays where pytest keeps the folders of its last sessions.
    """
    with ExitStack() as stack:

        def prepare(
            files: Mapping[str, str | bytes] | str | os.PathLike[str] | None = None, /, **mount: Any
        ) -> WorkspaceSection:
            from toolkit.workspace import HostMount, WorkspaceSection

            base = tmp_path_factory.mktemp("workspace")
            project = base / "project"
            if files is None or isinstance(files, Mapping):
                _write_files(project, files or {})
            elif isinstance(files, str | os.PathLike):
                project = Path(files)
            else:
                raise _refused(f"{files!r} is neither files nor a folder")
            (base / "parent").mkdir()
            section = WorkspaceSection([HostMount(project, **mount)], [project], parent=base / "parent")
            return stack.enter_context(section)

        yield prepare


def _write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        if not isinstance(name, str) or not isinstance(content, str | bytes):
            raise _refused(f"{name!r}: {content!r} is no file: its name is a text, and what is in it text or bytes")
        try:
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise _refused(f"the file {name!r} lies outside of the project")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except (OSError, ValueError) as error:  # also where one name is a file and a folder
            raise _refused(f"the file {name!r} cannot be written: {error}") from error


def _refused(what: str) -> TestingError:
    from toolkit.errors import TestingError

    return TestingError(what, fix='Write files relative to the project: workspace({"src/app.py": "x = 1\\n"})')


class _Latest:
    """The address of whichever API was started last."""

    def __init__(self, scripted: list[Scripted]) -> None:
        self._scripted = scripted

    @property
    def url(self) -> str:
        from toolkit.errors import TestingError
        from toolkit.testing import ScriptedAPI

        for one in reversed(self._scripted):
            if isinstance(one, ScriptedAPI):
                return one.url
        raise TestingError("real_cli has no model to talk to", fix='Script one first: api = scripted_api([text("hi")])')
