"""What may not be read is named before the copy, by it, and by the commands, and never silently missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.workspace.hostile import Place, a_place, run_as
from toolkit.cli.workspace import workspace as commands
from toolkit.runs import RunSpec, plan_run
from toolkit.workspace import HostMount, WorkspaceError, WorkspaceSection
from toolkit_workspace import LeftOut, left_unread_text

_SAID = "left out, because you may not read them: project/closed, project/link, project/shut"


def _make(place: Place) -> WorkspaceSection:
    place.make()
    for name in ("closed", "shut/in", "ours"):
        (place.project / name).parent.mkdir(exist_ok=True)
        (place.project / name).write_text("x" * 100)
    (place.project / "ours").chmod(0o440)
    (place.project / "link").symlink_to(place.outside / "secret.txt")
    for closed in (place.project / "closed", place.project / "shut", place.outside / "secret.txt"):
        closed.chmod(0)
    mount = HostMount(place.project, follow_symlinks=True)
    return WorkspaceSection([mount], [place.top], parent=place.parent)


def _told_alike(place: Place) -> None:
    section = _make(place)
    planned = section.plan()
    with section:
        left = [one for _, one in section.left_out]
        assert [(one.path, one.why) for one in left] == [(name, "unreadable") for name in ("closed", "link", "shut/")]
        assert list(planned.mounts[0].left_out) == left
        there = [path.stat().st_size for path in section.temp_dir.rglob("*") if path.is_file()]
        assert (planned.files, planned.size) == (len(there), sum(there))
        assert left_unread_text(section.left_out) == _SAID


def test_a_plan_names_what_a_copy_cannot_read() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _told_alike(place))


def _strict(place: Place) -> None:
    _make(place)
    for name in ("closed", "link", "shut"):
        others = [one for one in ("closed", "link", "shut") if one != name]
        mount = HostMount(place.project, exclude_glob=others, follow_symlinks=True)
        with pytest.raises(WorkspaceError, match=f"{name}/? cannot be read"):
            WorkspaceSection([mount], [place.top], strict=True).plan()
    with pytest.raises(WorkspaceError, match="Permission denied"):
        WorkspaceSection([HostMount(place.project / "closed")], [place.top]).plan()


def test_a_strict_plan_fails_as_a_strict_copy_does() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _strict(place))


def _commands(place: Place) -> None:
    _make(place)
    os.chdir(place.project)
    words = ["--mount", ".", "--root", str(place.top), "--follow-symlinks"]
    planned = CliRunner().invoke(commands, ["plan", *words])
    assert "3 unreadable: closed (Permission denied), link (Permission denied), shut/" in planned.output
    assert CliRunner().invoke(commands, ["plan", "--strict", *words]).exit_code == 1
    made = CliRunner().invoke(commands, ["prepare", *words, "--parent", str(place.parent)])
    assert made.stderr == f"{_SAID}\n"
    made = CliRunner().invoke(commands, ["prepare", *words, "--parent", str(place.parent), "--json"])
    assert (made.stderr, "temp_dir" in json.loads(made.stdout)) == (f"{_SAID}\n", True)


def test_the_commands_name_it() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _commands(place))


def _run(place: Place) -> None:
    os.environ["TOOLKIT_HOME"] = os.environ["HOME"] = str(place.top)
    section = _make(place)
    assert _SAID in plan_run(RunSpec("go", workspace=section)).warnings()


def test_the_plan_of_a_run_warns_of_it() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _run(place))


def test_what_the_permissions_forbid_and_a_capability_allows_is_no_remark(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    closed = tmp_path / "host/closed"
    closed.write_text("x")
    closed.chmod(0)
    can_read = os.access(closed, os.R_OK)
    (mount,) = WorkspaceSection([HostMount(tmp_path / "host")], [tmp_path]).plan().mounts
    assert (mount.files, len(mount.left_out)) == ((1, 0) if can_read else (0, 1))


def test_many_names_are_cut_short() -> None:
    left = [("src", LeftOut(f"f{number:02}", "unreadable", "Permission denied")) for number in range(40)]
    assert left_unread_text(left[:11]) == f"{_said(10)}, and 1 more"
    assert left_unread_text(left) == f"{_said(10)}, and more"
    assert left_unread_text([("src", LeftOut("a", "vanished"))]) is None


def _said(count: int) -> str:
    return f"left out, because you may not read them: {', '.join(f'src/f{number:02}' for number in range(count))}"
