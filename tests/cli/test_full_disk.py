"""A whole `toolkit run` on a disk that is too small: what it says, what is kept, and that it goes on once there is room.

Each disk is a small one of its own, mounted for the command alone.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT
from tests.cli._running import Desk
from tests.escape.users import PLAIN_USER, as_plain_user, can_become_plain
from tests.needs import needs
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

pytestmark = needs_jail
Start = Callable[..., ScriptedAPI]
APART = ["unshare", "--mount", "--propagation", "private"] if os.geteuid() == 0 else ["unshare", "-Urm"]
# bubblewrap wants no capabilities from a user.
DROPPED = [] if os.geteuid() == 0 else ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]


class SmallDisk:
    """A desk whose stored runs, or whose project, are on a disk of a few bytes."""

    def __init__(self, desk: Desk, place: Path, options: str, *, is_plain: bool = False) -> None:
        place.mkdir(exist_ok=True)
        self._desk = desk
        self._place = place
        self._mount = f"mount -t tmpfs -o {options} none {shlex.quote(str(place))}"
        self._is_plain = is_plain

    def says(self, *commands: str) -> list[tuple[int, str, str]]:
        """What commands say, one after the other: exit code, stdout, stderr. `toolkit` is this one."""
        fill = f"cp -R before/. {shlex.quote(str(self._place))}"
        lines = [f"{self._mount} && {fill} || exit 1"]
        for number, command in enumerate(commands):
            words = ["sh", "-c", f'toolkit() {{ {TOOLKIT} "$@"; }}; {command}']
            if not command.startswith("mount "):
                words = as_plain_user(words, self._desk.folder) if self._is_plain else [*DROPPED, *words]
            out = self._desk.folder / f"out-{number}"
            lines.append(f"{shlex.join(words)} >{out} 2>{out}-err </dev/null; echo $? >{out}-code")
        (self._desk.folder / "before").mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(self._desk.folder), "LANG": "C.UTF-8", **self._desk.env}
        subprocess.run([*APART, "sh", "-c", "\n".join(lines)], cwd=self._desk.folder, env=env, check=True, timeout=300)
        outs = [self._desk.folder / f"out-{number}" for number in range(len(commands))]
        return [
            (
                int(Path(f"{one}-code").read_text()),
                one.read_text(errors="replace"),
                Path(f"{one}-err").read_text(errors="replace"),
            )
            for one in outs
        ]


def bash(command: str) -> list[object]:
    return [tool_use("Bash", command=command)]


def test_a_copy_that_finds_no_room_is_told_with_how_much_and_nothing_is_left(
    tmp_path: Path, scripted_api: Start
) -> None:
    api = scripted_api()
    desk = Desk(tmp_path, api)
    (desk.src / "large").write_bytes(os.urandom(3 << 20))
    disk = SmallDisk(desk, desk.home, "size=2m")
    run, left, shown = disk.says(
        "toolkit run Go. --mount src", f"find {desk.home} -name '*workspace*'", "toolkit runs list"
    )
    assert (run[0], run[1]) == (1, "")
    assert "the workspace cannot be filled: No space left on device\n" in run[2]
    assert "2.1 MB are free, 3.1 MB are needed\n  Make room there. Nothing was left behind.\n" in run[2]
    assert left[1] == ""
    assert "There are no stored runs." in shown[1] + shown[2]
    assert not api.requests


def test_a_disk_that_takes_no_run_at_all_says_so_before_anything_starts(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api()
    desk = Desk(tmp_path, api)
    run, listed = SmallDisk(desk, desk.home, "size=4k,nr_inodes=4").says(
        "toolkit run Go. --mount src", "toolkit runs list"
    )
    assert (run[0], run[1]) == (1, "")
    assert run[2].startswith("the run cannot be stored: No space left on device\n")
    assert "Make room there, or set TOOLKIT_HOME to a folder of yours" in run[2]
    assert "There are no stored runs." in listed[1] + listed[2]
    assert not api.requests


@pytest.mark.parametrize("options", ["size=1m", "size=1m,nr_inodes=5"], ids=["blocks", "inodes"])
def test_a_jail_that_finds_no_room_for_its_check_does_not_start(
    tmp_path: Path, scripted_api: Start, options: str
) -> None:
    api = scripted_api()
    desk = Desk(tmp_path, api)
    disk = tmp_path / "disk"
    fill = f"cd {disk}; mkdir src; for i in 1 2 3 4 5; do head -c 300k /dev/zero > $i; done; true"
    filled, *tries, run = SmallDisk(desk, disk, options).says(
        fill,
        f"toolkit sandbox exec --workspace {disk}/src -- touch {tmp_path}/ran",
        f"toolkit sandbox exec --read-only --workspace {disk}/src -- touch {tmp_path}/ran",
        f"toolkit run Go. --in-place {disk}/src",
    )
    refused = "refusing to start: the jail cannot be made and checked: No space left on device\n"
    assert filled[0] == 0
    for code, out, error in (*tries, run):
        assert (code, out) == (4, ""), error
        assert refused in error
        assert f"{disk}/src: 0 B are free\n" in error or "(no free inode)\n" in error
        assert "Make room there.\n" in error
    assert not api.requests


def test_a_check_that_finds_no_room_has_failed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    disk = tmp_path / "disk"
    fill = f"mkdir {disk}/src; head -c 2m /dev/zero > {disk}/all"
    _, (code, out, error) = SmallDisk(desk, disk, "size=1m").says(fill, f"toolkit sandbox check --workspace {disk}/src")
    assert (code, error) == (1, "")
    assert f"No space left on device; {disk}/src: 0 B are free\n" in out
    assert "NOT confined: nothing would be started" in out


@pytest.mark.parametrize(
    "is_plain",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
                needs(can_become_plain(), "setpriv and unshare are needed"),
            ],
        ),
    ],
)
def test_an_agent_that_fills_the_disk_loses_nothing(anyones_folder: Path, scripted_api: Start, is_plain: bool) -> None:
    api = scripted_api(bash("echo kept > kept.txt; head -c 99m /dev/zero > big; echo FULL $?"), [text("Done.")])
    desk = Desk(anyones_folder, api)
    options = "size=24m"
    if is_plain:
        options += f",uid={PLAIN_USER},gid={PLAIN_USER}"
        for folder in (desk.src, desk.src / "app.py"):
            os.chown(folder, PLAIN_USER, PLAIN_USER)
    more = f"mount -o remount,size=80m {desk.home}"
    run, apply, room, again, undone = SmallDisk(desk, desk.home, options, is_plain=is_plain).says(
        "toolkit run Go. --mount src",
        "toolkit runs apply last; cat src/app.py; ls src",
        more,
        "toolkit runs apply last; cat src/kept.txt",
        "toolkit runs apply last --undo; ls src",
    )
    assert "Done." in run[1], run
    assert (run[0], "src/kept.txt  +1 −0" in run[2]) == (0, True), run
    assert "warning: the end of the run cannot be stored: No space left on device" in run[2]
    assert any("FULL 1" in str(result) for result in api.tool_results())
    assert "the changes cannot be written down before they are applied: No space left on device" in apply[2]
    assert "Nothing was touched: try again." in apply[2]
    assert apply[1] == "print('old')\napp.py\n"
    assert room[0] == 0
    assert (again[0], "kept\n" in again[1]) == (0, True), again
    assert undone[1].endswith("app.py\n"), undone
    assert "kept.txt\n" not in undone[1].rpartition("app.py")[2]


def test_a_disk_that_fills_up_under_way_ends_the_run_and_its_calls(tmp_path: Path, scripted_api: Start) -> None:
    # Whether a page is left when it is full is a matter of luck, so what looks at it must not need one.
    talk = [[text("x" * 100_000), *bash(f"echo {number}")] for number in range(30)]
    api = scripted_api(bash("echo new > new.txt"), *talk, [text("Never.")], strict=False)
    desk = Desk(tmp_path, api)
    run, shown, diff = SmallDisk(desk, desk.home, "size=600k").says(
        "toolkit run Go. --mount src",
        f"cat /dev/zero > {desk.home}/the-rest; toolkit runs show last",
        "toolkit runs diff last",
    )
    assert run[0] == 1
    why = "an event of the run cannot be stored: No space left on device"
    assert f"internal: The agent failed while it was working.\n  {why}\n" in run[2]
    assert f"warning: {why}\n" in run[2]
    assert f"{desk.home}/runs/" in run[2].partition("warning: ")[2]
    assert "free)" in run[2]
    assert "Traceback" not in run[2]
    assert "Fatal error" not in run[2]
    assert len(api.requests) < 12  # those that were told, and perhaps one that was under way
    assert "Bash" in shown[1]
    assert "+new\n" in diff[1], diff


def test_an_apply_that_finds_no_room_leaves_the_host_as_it_was(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api(bash("head -c 5m /dev/urandom > big; echo new > app.py"), [text("Done.")]))
    before = tmp_path / "before"
    before.mkdir()
    (before / "app.py").write_text("print('old')\n", encoding="utf-8")
    run, apply, kept, _, again = SmallDisk(desk, desk.src, "size=1m").says(
        "toolkit run Go. --mount src",
        "toolkit runs apply last",
        "ls -A src; cat src/app.py",
        f"mount -o remount,size=20m {desk.src}",
        "toolkit runs apply last; ls -A src; cat src/app.py",
    )
    assert run[0] == 0, run
    assert apply[0] == 1
    assert "the changes cannot be written: No space left on device\n" in apply[2]
    assert "What had been written was taken back: the host is as it was." in apply[2]
    assert kept[1] == "app.py\nprint('old')\n"
    assert again[1].endswith("app.py\nbig\nnew\n"), again


def test_what_writes_no_run_says_how_much_is_free_too(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    assert desk.toolkit("run", "Go.").code == 0
    (tmp_path / "tasks.jsonl").write_text('"Go."\n', encoding="utf-8")
    disk = tmp_path / "disk"
    _, *full = SmallDisk(desk, disk, "size=64k").says(
        f"cat /dev/zero > {disk}/the-rest; true",
        f"TOOLKIT_HOME={disk}/home toolkit batch tasks.jsonl",
        f"toolkit report last -o {disk}/report.html",
        f"toolkit ui --export {disk}/page",
        f"cd {disk} && mkdir project && cd project && toolkit init",
    )
    for code, out, err in full:
        assert (code != 0, out) == (True, ""), err
        assert "No space left on device" in err
        assert f"{disk}/" in err
        assert "0 B are free" in err or "(0 B free)" in err
