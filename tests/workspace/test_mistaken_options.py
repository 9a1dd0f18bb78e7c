"""A mount or a section with an option that is not what it may be is refused when it is made, in words."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from toolkit.errors import WorkspaceError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace import mount, section

NO_FLAG = ["no", "false", "", 0, 1, None, [], b"x"]
NO_PATH = [1, b"x", "", "nul\0", "\ud800", True, {}, ["src"]]
NO_LIST_OF_TEXTS = [
    None,
    b"*.py",
    1,
    Path("a.py"),
    [Path("a.py")],
    [1],
    [None],
    {"*.py": 1},
    ["a\ud800"],
    ["a\0"],
    True,
]
OF_A_MOUNT: dict[str, list[Any]] = {
    "host_path": [*NO_PATH, None],
    "mount_path": NO_PATH,
    "include_glob": NO_LIST_OF_TEXTS,
    "exclude_glob": NO_LIST_OF_TEXTS,
    "max_bytes": ["5", True, False, -1, math.nan, 1.0, b"5", [5]],
    "follow_symlinks": NO_FLAG,
    "gitignore": NO_FLAG,
    "leave_out_secrets": NO_FLAG,
    "lend": [None, 1, b"data", "", [""], [None], [b"data"], {"data": 1}, ["data\ud800"]],
    "git": ["maybe", "", None, 1, True, ["lend"]],
}
OF_A_SECTION: dict[str, list[Any]] = {
    "mounts": [None, 1, b"src", "", [""], [None], [1], {"src": "src"}, [["src"]], True],
    "allowed_host_roots": [None, 1, b"/tmp", "", [""], [None], {"/tmp": 1}, [b"/tmp"], True],
    "parent": NO_PATH,
    "keep": NO_FLAG,
    "strict": NO_FLAG,
    "keep_bases": NO_FLAG,
    "progress": ["x", 1, True, Path.cwd],
    "at": [1, b"/work", "", "work", Path("work"), "/", Path("/"), "/nul\0", "/\ud800"],
    "backend": ["Overlay", "", None, 1, True],
}


def _all(mistakes: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(name, value, id=f"{name}={value!a}") for name, values in mistakes.items() for value in values]


def _arguments(made: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(made).parameters)


@pytest.mark.parametrize(("name", "value"), _all(OF_A_MOUNT))
def test_a_mount_with_such_an_option_is_refused(name: str, value: Any) -> None:
    with pytest.raises(WorkspaceError) as caught:
        HostMount(**{"host_path": "src", name: value})
    assert caught.value.what.startswith(name)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("name", "value"), _all(OF_A_SECTION))
def test_a_section_with_such_an_option_is_refused(name: str, value: Any) -> None:
    with pytest.raises(WorkspaceError) as caught:
        WorkspaceSection(**{"mounts": [], name: value})
    assert caught.value.what.startswith(name)
    assert caught.value.exit_code == 2


def test_every_option_has_its_rule_and_its_mistakes_here() -> None:
    assert set(mount._RULES) == _arguments(HostMount) == OF_A_MOUNT.keys()
    assert set(mount._RULES) == {field.name for field in dataclasses.fields(HostMount)}
    assert set(section._RULES) == _arguments(WorkspaceSection) == OF_A_SECTION.keys()


def test_an_option_without_a_rule_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(mount._RULES, "follow_symlinks")
    with pytest.raises(KeyError):
        HostMount("src")
    monkeypatch.delitem(section._RULES, "strict")
    with pytest.raises(KeyError):
        WorkspaceSection([])


@pytest.mark.parametrize("written", ["no", "false", 1])
def test_links_are_followed_for_true_alone(tmp_path: Path, written: Any) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/o.txt").write_text("o", encoding="utf-8")
    (tmp_path / "proj/link").symlink_to("../outside/o.txt")
    with pytest.raises(WorkspaceError):
        HostMount(tmp_path / "proj", follow_symlinks=written)
    with WorkspaceSection([HostMount(tmp_path / "proj", follow_symlinks=False)], [tmp_path]) as plain:
        assert not (plain.temp_dir / "proj/link").exists()


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_a_path_is_a_mount_and_one_thing_needs_no_list(tmp_path: Path, alone: bool, as_text: bool) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("a", encoding="utf-8")
    path = str(tmp_path / "src") if as_text else tmp_path / "src"
    given: Any = path if alone else [path]
    assert WorkspaceSection(given).mounts == (HostMount(path),)
    assert WorkspaceSection(HostMount(path)).mounts == (HostMount(path),)
    with WorkspaceSection(given, given, parent=tmp_path) as made:
        assert (made.temp_dir / "src/a.txt").read_text(encoding="utf-8") == "a"
    with pytest.raises(WorkspaceError):
        WorkspaceSection(given).prepare()


def test_what_was_right_stays_right() -> None:
    assert HostMount(".").host_path == Path()
    assert HostMount("src", exclude_glob="*.py").exclude_glob == ("*.py",)
    assert HostMount("src", exclude_glob=(one for one in ("a", "b"))).exclude_glob == ("a", "b")
    assert HostMount("src", Path("x/y"), max_bytes=0).mount_path == "x/y"
    for lend in ("data", Path("data"), ["data", "data/"], [Path("data")]):
        assert HostMount("src", lend=lend).lend == ("data",)
    made = WorkspaceSection([], at=Path("/work"), progress=print)
    assert made.at == WorkspaceSection([], at="/work/").at == "/work"


def test_preparing_and_opening_take_the_same_values(tmp_path: Path) -> None:
    for options in ({"keep": "no"}, {"parent": ""}, {"parent": 1}):
        with pytest.raises(WorkspaceError):
            WorkspaceSection([], parent=tmp_path).prepare(**options)
    for nothing in ("", None):
        with pytest.raises(WorkspaceError):
            WorkspaceSection.open(nothing)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("key", "value"), [("follow_symlinks", "no"), ("max_bytes", "5"), ("landing", 1)])
def test_a_record_that_holds_no_such_mount_cannot_be_read(tmp_path: Path, key: str, value: Any) -> None:
    (tmp_path / "src").mkdir()
    with WorkspaceSection(tmp_path / "src", tmp_path, parent=tmp_path, keep=True) as made:
        record = made.state_dir / "owner.json"
    facts = json.loads(record.read_text(encoding="utf-8"))
    facts["mounts"][0][key] = value
    record.write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(WorkspaceError, match="the record of the workspace") as caught:
        WorkspaceSection.open(made.temp_dir)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("made", "options", "says"),
    [
        (HostMount, {"host_path": ""}, "host_path='': the path is empty\n  Write '.' for the current folder"),
        (HostMount, {"host_path": None}, "host_path=None: it is a path, as a text or a Path"),
        (HostMount, {"host_path": "src", "follow_symlinks": "no"}, "follow_symlinks='no': it is True or False"),
        (
            HostMount,
            {"host_path": "src", "exclude_glob": [PurePosixPath("a.py")]},
            "exclude_glob[0]=PurePosixPath('a.py'): it is a pattern as in a .gitignore file, as a text\n  Write 'a.py'",
        ),
        (
            HostMount,
            {"host_path": "src", "exclude_glob": b"*.py"},
            "exclude_glob=b'*.py': it is a list of patterns\n"
            "  Write for example: exclude_glob=['*.pyc', 'node_modules/']",
        ),
        (
            HostMount,
            {"host_path": "src", "max_bytes": "5"},
            "max_bytes='5': it is a whole number of bytes, 0 or more\n"
            "  Write for example 50_000_000, or None for no limit",
        ),
        (
            WorkspaceSection,
            {"mounts": [1]},
            "mounts[0]=1: it is a HostMount, or a path\n  Write for example: HostMount('src')",
        ),
        (
            WorkspaceSection,
            {"mounts": [], "allowed_host_roots": None},
            "allowed_host_roots=None: it is a list of folders\n  Write [] for none",
        ),
        (
            WorkspaceSection,
            {"mounts": [], "backend": "overlaid"},
            "backend='overlaid': there is no such backend; did you mean 'overlay'?",
        ),
        (
            WorkspaceSection,
            {"mounts": [], "progress": "x"},
            "progress='x': it is a function that takes a Progress\n"
            "  Write for example: progress=lambda progress: print(progress.files)",
        ),
    ],
)
def test_the_refusals_read_well(made: Callable[..., object], options: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkspaceError) as caught:
        made(**options)
    assert str(caught.value) == says
