"""What a confined command sees, and what stays on the host when it is gone."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import a_jail, inside, needs_jail, needs_root, soon
from toolkit._base.handles import walk_folders
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox import ShellOptions, check, python_environment, run_confined
from toolkit.sandbox.host import usable_home, usable_readable, usable_workspace
from toolkit.sandbox.jail import rivals, seccomp_filter, sweep


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "given.txt").write_text("from outside", encoding="ascii")
    return folder


@needs_jail
def test_only_the_workspace_and_the_system_are_there(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden", encoding="ascii")

    with a_jail(workspace) as jail:
        seen = inside(jail, f"cat given.txt; ls {tmp_path}; ls -A /root /home /opt /mnt /srv /boot 2>/dev/null")
        top = inside(jail, "ls -A /").stdout.split()

    assert seen.stdout.split("\n")[:2] == ["from outsideworkspace", "/home:"]
    assert "hidden" not in seen.stdout + seen.stderr
    assert set(top) <= {
        "bin",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "tmp",
        "usr",
        "var",
        *workspace.parts[1:2],
    }


@needs_jail
def test_what_is_made_inside_is_there_afterwards_and_belongs_to_the_caller(workspace: Path) -> None:
    with a_jail(workspace) as jail:
        done = inside(jail, "mkdir -p a/b && echo made > a/b/c && chmod 6755 a/b/c && ln a/b/c a/d && echo $PWD")

    assert done.stdout.strip() == str(workspace)
    assert (workspace / "a/b/c").read_text(encoding="ascii") == "made\n"
    for path in (workspace, workspace / "a", workspace / "a/b/c", workspace / "a/d", workspace / "given.txt"):
        assert path.stat().st_uid == os.geteuid()


@needs_jail
@needs_root
def test_a_set_user_id_file_does_not_come_back_as_roots(workspace: Path) -> None:
    with a_jail(workspace) as jail:
        inside(jail, "cp /bin/sh shell && chmod 6755 shell")
        while_lent = (workspace / "shell").stat()

    assert while_lent.st_uid not in (0, 1000)
    assert (workspace / "shell").stat().st_mode & 0o6000 == 0


@needs_jail
@needs_root
def test_a_file_with_a_second_name_outside_is_not_lent(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="ascii")
    (workspace / "also").hardlink_to(outside)

    with a_jail(workspace) as jail:
        inside(jail, "echo changed > also; chmod 777 also")
        assert outside.stat().st_uid == 0

    assert outside.read_text(encoding="ascii") == "mine"


@needs_jail
def test_a_file_with_two_names_inside_is_lent(workspace: Path) -> None:
    (workspace / "also").hardlink_to(workspace / "given.txt")

    with a_jail(workspace) as jail:
        inside(jail, "echo changed > also")

    assert (workspace / "given.txt").read_text(encoding="ascii") == "changed\n"
    assert (workspace / "also").stat().st_uid == os.geteuid()


_VARIABLES = {"HOME", "LANG", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "TOOLKIT_JAIL", "USER", "_"}


@needs_jail
def test_nothing_of_the_callers_environment_is_inside(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "do-not-tell")

    with a_jail(workspace) as jail:
        seen = inside(jail, "env; cat /proc/*/environ | tr '\\0' '\\n'").stdout

    assert "do-not-tell" not in seen
    assert {line.partition("=")[0] for line in seen.splitlines()} <= _VARIABLES


@needs_jail
def test_the_root_and_its_devices_cannot_be_written(workspace: Path) -> None:
    places = ["/", "/usr", "/etc", "/dev", "/run", "/proc", "/proc/sys/kernel", "/var", "/home"]

    with a_jail(workspace) as jail:
        made = inside(jail, "; ".join(f"touch {place}/new && echo {place}" for place in places))

    assert made.stdout == ""


@needs_jail
@pytest.mark.skipif(not Path("/etc/localtime").is_symlink(), reason="the zone has no name here")
def test_the_time_zone_has_its_name_inside(workspace: Path) -> None:
    with a_jail(workspace) as jail:
        seen = inside(jail, "readlink /etc/localtime; date +%Z; cat /etc/localtime > /dev/null")

    outside = subprocess.run(["date", "+%Z"], capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    assert seen.stdout == f"{Path('/etc/localtime').readlink()}\n{outside.stdout}"
    assert seen.stderr == ""


@needs_jail
def test_it_is_an_ordinary_user_without_privileges(workspace: Path) -> None:
    with a_jail(workspace) as jail:
        seen = inside(jail, "id -un; hostname; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; ip -o link | wc -l")

    assert seen.stdout.split() == ["agent", "agent", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "1"]


@needs_jail
@needs_root
def test_no_group_of_root_is_left(workspace: Path) -> None:
    before = os.getgroups()
    os.setgroups([*before, 4])
    try:
        with a_jail(workspace) as jail:
            seen = inside(jail, "grep -E '^(Groups|Gid)' /proc/self/status")
    finally:
        os.setgroups(before)

    assert seen.stdout.split() == ["Gid:", *["1000"] * 4, "Groups:"]


@needs_jail
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_handle_is_no_way_out(workspace: Path, tmp_path: Path, closed: str) -> None:
    """Bubblewrap's own handles on the host must not take its place: its first process keeps the first three."""
    tmp_path.chmod(0o777)
    look = "for f in /proc/[0-9]*/fd/*; do [ -d $f/ ] && echo $f; done; echo looked"
    with a_jail(workspace) as jail:
        command = f'exec "$@" {closed}'
        program = ["/bin/sh", "-c", command, "sh", str(jail.script), "/bin/bash", "-c", f"{{ {look}; }} > found"]
        subprocess.run(program, timeout=60, check=False, stdin=subprocess.DEVNULL)

    assert (workspace / "found").read_text() == "looked\n"


@needs_jail
@pytest.mark.parametrize("apart", [{}, {"start_new_session": True}, {"process_group": 0}], ids=["", "session", "group"])
def test_a_jail_is_the_callers_own_child(workspace: Path, apart: dict[str, Any]) -> None:
    """Only then does it end with the caller: nothing in between may wait for it."""
    with a_jail(workspace) as jail:
        process = subprocess.Popen([jail.script, "sleep", "60"], **apart)
        assert soon(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "bwrap\n")
        jail.folder.kill()
        assert process.wait(timeout=60) in (-signal.SIGKILL, 128 + signal.SIGKILL)


@needs_jail
@needs_root
def test_a_path_that_was_replaced_is_shown_as_it_is_now(workspace: Path, tmp_path: Path) -> None:
    file = tmp_path / "it's a file"
    file.write_text("old")
    with a_jail(workspace, readable=(file,)) as jail:
        assert inside(jail, f"cat {shlex.quote(str(file))}").stdout == "old"
        (tmp_path / "new").write_text("new")
        (tmp_path / "new").rename(file)
        for _ in range(2):
            assert inside(jail, f"cat {shlex.quote(str(file))}").stdout == "new"
        file.unlink()
        gone = inside(jail, "true")

    assert gone.returncode != 0
    assert "it's a file" in gone.stderr


@needs_jail
def test_nothing_is_shown_from_where_the_agent_could_put_a_link(workspace: Path, tmp_path: Path) -> None:
    (workspace / "inner").mkdir()
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    options: dict[str, Any]
    for folder, options in (
        (workspace, {"cli_home": workspace / "inner"}),
        (workspace, {"cli_home": home, "readable": (home / "project",)}),
        (home / "project", {"cli_home": home}),
    ):
        with pytest.raises(SandboxError, match="where the agent could replace it"):
            a_jail(folder, has_cli=True, **options).__enter__()


@needs_jail
def test_a_link_above_a_mount_point_leads_nowhere(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("hidden", encoding="ascii")
    for name in ("shown", "far/deep"):
        (workspace / name).mkdir(parents=True)
    for name in ("shown", "far", "far/deep"):
        move = f"umount -l {name}; mv {name} moved; rmdir {name}; rm -rf {name}"
        link = f"ln -sfn {outside} above; ln -sfnT {outside} {name}; stat -c %F {name}"
        tries = f"{move}; unshare -Urm sh -c '{move}'; {link}"
        with a_jail(workspace, readable=(workspace / "shown", workspace / "far/deep")) as jail:
            seen = inside(jail, tries)
            again = inside(jail, f"cat {name}/secret {name}/deep/secret above/secret")
        assert (seen.stdout, again.stdout) == ("directory\n", "")
    # What an agent left there is not followed by the next jail either.
    with pytest.raises(SandboxError, match="leads out of the workspace by a link"):
        run_confined(["true"], workspace, ShellOptions(readable=(workspace / "above",)))
    with pytest.raises(SandboxError, match="cannot be shown"):
        a_jail(workspace, readable=(workspace / "above" / "deep",)).__enter__()
    with pytest.raises(SandboxError, match="cannot be shown"):
        a_jail(workspace, lent=((tmp_path, str(workspace / "above" / "deep")),)).__enter__()
    assert [path.name for path in outside.iterdir()] == ["secret"]


@needs_jail
def test_a_workspace_belongs_to_one_jail_at_a_time(workspace: Path) -> None:
    (workspace / "inner").mkdir()
    with a_jail(workspace, sole=True) as jail:
        for folder in (workspace, workspace / "inner"):
            with pytest.raises(SandboxError, match="in use by another jail") as caught, a_jail(folder, sole=True):
                pass
            assert caught.value.where == (f"process {os.getpid()} works in {workspace}",)
        assert inside(jail, "echo x > file; cat file").stdout == "x\n"
    with a_jail(workspace) as jail:
        assert inside(jail, "cat file").stdout == "x\n"


@needs_jail
def test_a_command_may_run_beside_a_run_but_root_s_jails_take_the_files_over(workspace: Path) -> None:
    with a_jail(workspace, sole=True):
        if os.geteuid() == 0:
            with pytest.raises(SandboxError, match="in use by another jail"):
                run_confined(["true"], workspace)
        else:
            assert run_confined(["true"], workspace).exit_code == 0


# Asks for the same folder again and again, at the same moment as others; what becomes of it, one word a round.
_ASKING = """
import asyncio, sys
from toolkit.errors import SandboxError
from toolkit.sandbox import confine

async def ask():
    try:
        async with confine(sys.argv[1], api_url="http://127.0.0.1:9", api_key="k"):
            print("in", flush=True)
            sys.stdin.readline()
    except SandboxError as error:
        print(error.what, flush=True)

print("ready", flush=True)
while sys.stdin.readline():
    asyncio.run(ask())
    print("over", flush=True)
"""


@needs_jail
def test_of_runs_that_start_at_once_in_one_folder_exactly_one_goes_on(workspace: Path) -> None:
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", _ASKING, workspace],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(3)
    ]

    def told(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def tell(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("go\n")

    try:
        assert [told(process) for process in asking] == ["ready"] * 3
        for _ in range(6):
            for process in asking:
                tell(process)
            answers = {process: told(process) for process in asking}
            inside = [process for process, answer in answers.items() if answer == "in"]
            refused = {answer for answer in answers.values() if answer != "in"}
            for process in inside:
                tell(process)
            assert [told(process) for process in asking] == ["over"] * 3
            assert (len(inside), refused) == (1, {f"the workspace '{workspace}' is in use by another jail"})
    finally:
        for process in asking:
            process.communicate(timeout=60)


@needs_jail
@needs_root
def test_somebody_else_cannot_say_that_a_workspace_is_in_use(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="t-") as jails:  # short, for the socket in it
        monkeypatch.setattr(tempfile, "tempdir", jails)
        with a_jail(workspace) as jail:
            lie = jail.folder.path
            os.chown(lie, 12345, 12345)
            try:
                assert not rivals(workspace, Path(jails, "our own"))
            finally:
                os.chown(lie, 0, 0)
            assert rivals(workspace, Path(jails, "our own"))


@needs_jail
@needs_root
def test_what_an_older_version_lent_is_given_back(workspace: Path) -> None:
    with a_jail(workspace) as jail:
        file = jail.folder.path / "lent"
        facts = json.loads(file.read_text(encoding="utf-8"))
        del facts["traces"]
        file.write_text(json.dumps(facts), encoding="utf-8")

    assert workspace.stat().st_uid == 0


@needs_jail
def test_nothing_stays_open_after_a_jail(workspace: Path) -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    with a_jail(workspace) as jail:
        assert inside(jail, "echo in").stdout == "in\n"

    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


@needs_jail
def test_a_readable_path_can_be_read_and_not_changed(workspace: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "file").write_text("look", encoding="ascii")
    (workspace / "fixed").mkdir()

    with a_jail(workspace, readable=(shown, workspace / "fixed")) as jail:
        seen = inside(jail, f"cat {shown}/file; touch {shown}/new; touch fixed/new; touch free")

    assert seen.stdout == "look"
    assert sorted(path.name for path in workspace.rglob("*")) == ["fixed", "free", "given.txt"]
    assert [path.name for path in shown.iterdir()] == ["file"]


@needs_jail
def test_a_read_only_workspace_cannot_be_changed(workspace: Path) -> None:
    with a_jail(workspace, read_only=True) as jail:
        seen = inside(jail, "cat given.txt; echo x > given.txt; touch new; rm given.txt")

    assert seen.stdout == "from outside"
    assert [(path.name, path.read_text(encoding="ascii")) for path in workspace.iterdir()] == [
        ("given.txt", "from outside")
    ]


@needs_jail
def test_this_python_runs_inside_when_its_environment_is_shown(workspace: Path) -> None:
    with a_jail(workspace, readable=python_environment()) as jail:
        seen = inside(jail, f"{sys.executable} -c 'import pydantic, os; print(os.getuid())'")

    assert seen.stdout.strip() == "1000", seen.stderr


@needs_jail
def test_the_kernels_keyring_and_io_uring_are_out_of_reach(workspace: Path) -> None:
    calls = (
        "import ctypes, errno, platform; c = ctypes.CDLL(None, use_errno=True);"
        "n = 250 if platform.machine() == 'x86_64' else 219;"
        "print(c.syscall(n, 0, -3, 1), ctypes.get_errno() == errno.EPERM);"
        "print(c.syscall(425, 4, None), ctypes.get_errno() == errno.ENOSYS)"
    )
    with a_jail(workspace, readable=python_environment()) as jail:
        seen = inside(jail, f'{sys.executable} -c "{calls}"')

    assert seen.stdout.split() == ["-1", "True", "-1", "True"], seen.stderr


@needs_jail
@pytest.mark.parametrize("name", ["with space", "it's $HOME `id`", "new\nline", "ünï-\udcff", "-rf", "%s{state}"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()

    with a_jail(folder) as jail:
        done = inside(jail, "echo here > file")

    assert done.returncode == 0, done.stderr
    assert (folder / "file").read_text(encoding="ascii") == "here\n"


def test_unusable_workspaces_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("home", "config/inner", "real"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    bad: list[str | Path] = [
        "/",
        "/usr",
        "/tmp",
        "/proc/self",
        "/dev/shm",
        *(tmp_path / name for name in ("none", "link", "file", "home", "config", "config/inner")),
    ]

    for folder in (*bad, tmp_path):
        with pytest.raises(SandboxError) as caught:
            usable_workspace(folder)
        assert str(folder) in caught.value.what
        assert caught.value.fix

    assert usable_workspace(tmp_path / "real") == tmp_path / "real"


@needs_root
def test_a_workspace_of_someone_else_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 1234, 1234)

    with pytest.raises(SandboxError, match="belongs to uid 1234"):
        usable_workspace(theirs)


def test_unusable_readable_paths_and_homes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)

    for path in (*map(Path, ("/", "/etc", "/home")), tmp_path / "home", tmp_path, tmp_path / "none"):
        with pytest.raises(SandboxError):
            usable_readable(path)
    for path in (tmp_path / "open", tmp_path / "home"):
        with pytest.raises(SandboxError):
            usable_home(path)

    assert usable_home(tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_the_filter_knows_two_machines_and_refuses_others() -> None:
    assert len(seccomp_filter("x86_64")) % 8 == 0
    assert seccomp_filter("aarch64") != seccomp_filter("x86_64")
    with pytest.raises(UnconfinedError, match="riscv64"):
        seccomp_filter("riscv64")


@needs_jail
def test_only_the_sockets_that_stay_inside_can_be_opened(workspace: Path) -> None:
    wanted = [(1, 1, 0), (2, 1, 0), (2, 2, 0), (10, 1, 0), (16, 3, 0)]
    others = [(family, kind, 0) for family in range(50) if family not in (1, 2, 10, 16) for kind in (1, 2, 3, 5)]
    others += [(16, 3, protocol) for protocol in range(1, 23)]
    # What the kernel does not look at must not lead past the filter either.
    others += [((1 << 32) + 40, 1, 0), (40 - (1 << 32), 1, 0)]
    (workspace / "tries.py").write_text(
        "import ctypes, platform\n"
        "call = ctypes.CDLL(None, use_errno=True).syscall\n"
        "socket, pair = (41, 53) if platform.machine() == 'x86_64' else (198, 199)\n"
        "def opens(number, asked, *rest):\n"
        "    got = call(number, *(ctypes.c_long(value) for value in asked), *rest)\n"
        "    return 'opened' if got >= 0 else ctypes.get_errno()\n"
        f"print([opens(socket, asked) for asked in {wanted}])\n"
        f"print({{opens(socket, asked) for asked in {others}}})\n"
        "two = (ctypes.c_int * 2)()\n"
        "print(opens(pair, (1, 1, 0), two), opens(pair, (40, 1, 0), two), opens(pair, (30, 1, 0), two))\n",
        encoding="ascii",
    )
    with a_jail(workspace, readable=python_environment()) as jail:
        seen = inside(jail, f"{sys.executable} tries.py").stdout.splitlines()

    no_family = errno.EAFNOSUPPORT
    assert seen == [str(["opened"] * len(wanted)), str({no_family}), f"opened {no_family} {no_family}"]


# Folders in one another, far beyond the longest path.
_DEEP = """
import os
for _ in range(3_000):
    os.mkdir("d")
    os.chdir("d")
print("made")
"""


@pytest.fixture
def shallow(tmp_path: Path) -> Iterator[None]:
    """Leaves no tree behind that pytest could not remove."""
    yield
    subprocess.run(["rm", "-rf", "--", *tmp_path.iterdir()], check=True)


@needs_jail
@pytest.mark.parametrize("place", ["home", "workspace"])
def test_a_tree_deeper_than_any_path_stops_no_later_jail(workspace: Path, shallow: None, place: str) -> None:
    where = "$HOME" if place == "home" else "."
    for _ in range(2):
        with a_jail(workspace, readable=python_environment()) as jail:
            made = inside(jail, f"cd {where}; rm -rf d; {sys.executable} -c '{_DEEP}'")
        assert made.stdout == "made\n", made.stderr
        assert not jail.folder.path.exists()
        assert run_confined(["true"], workspace).exit_code == 0
        assert check(workspace).ok

    depth, here = 0, os.open(workspace, os.O_RDONLY)
    for handle, _, _ in walk_folders(here):
        depth += 1
        assert os.fstat(handle).st_uid == os.geteuid()
    os.close(here)
    assert depth == (3_001 if place == "workspace" else 1)


@needs_jail
def test_what_a_killed_starter_left_is_swept_however_deep(
    tmp_path: Path, shallow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, stuck = tmp_path / "toolkit-jail-left", tmp_path / "toolkit-jail-stuck"
    for folder in (left, stuck):
        folder.mkdir()
        (folder / "owner").touch()
    subprocess.run([sys.executable, "-c", _DEEP], cwd=left, check=True, capture_output=True)
    # Whatever is wrong with one leftover, it is no reason to leave the others or to start nothing.
    (stuck / "lent").write_text('{"cgroups": 5, "folders": [], "tenant": null}', encoding="ascii")

    assert sweep() == [left]
    assert not left.exists()


@needs_jail
def test_a_sandbox_in_the_jail_that_shows_etc_and_not_run_finds_its_files(workspace: Path) -> None:
    look = "head -1 /etc/passwd /etc/resolv.conf && id -un && getent hosts localhost"
    with a_jail(workspace) as jail:
        seen = inside(jail, f"bwrap --ro-bind / / --dev /dev --tmpfs /run sh -c {shlex.quote(look)}")

    assert (seen.returncode, seen.stderr) == (0, "")
    assert {"root:x:0:0:root:/:/bin/false", "agent"} <= set(seen.stdout.splitlines())


@needs_jail
def test_its_files_in_etc_are_plain_ones_that_nobody_inside_can_change(workspace: Path) -> None:
    names = "passwd group hosts nsswitch.conf resolv.conf"
    tries = "[ -f $f ] && [ ! -L $f ] && ! echo x >> $f && ! rm -f $f && ! mv $f $f.x && ! chmod 666 $f && cat $f > /dev/null"
    with a_jail(workspace) as jail:
        seen = inside(jail, f"cd /etc; for f in {names}; do {tries} && echo $f; done 2> /dev/null")

    assert seen.stdout.split() == names.split()
