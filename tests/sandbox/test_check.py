"""The check passes where the jail holds, and notices every hole and everything that is missing."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.sandbox.jails import a_jail, needs_jail, needs_root
from toolkit.cli.sandbox import check as check_command
from toolkit.errors import UnconfinedError
from toolkit.sandbox import check, run_confined
from toolkit.sandbox.jail import Flight, OpenJail, canary, fly, launcher as launching, machine, proof, prove

ROWS = [
    "read",
    "handles",
    "write",
    "port",
    "unix",
    "abstract",
    "environment",
    "pid1",
    "processes",
    "namespaces",
    "families",
    "apart",
    "privileges",
]
ROWS += ["kernel", "nested", "tools", "workspace"]


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Not below pytest's own folder, which only its owner may enter: the holes have to be real ones.
    with tempfile.TemporaryDirectory(prefix="workspace-") as folder:
        yield Path(folder)


@pytest.fixture
def programs() -> Iterator[Path]:
    # A jail that root starts looks for them as someone else.
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "_PASSED", {})


def _programs(folder: Path, *, without: str = "", bwrap: str | None = None) -> str:
    """A PATH with the usual programs, one missing or bubblewrap replaced by a script."""
    for place in ("/usr/bin", "/bin"):
        for name in (
            "bwrap",
            "socat",
            "sh",
            "bash",
            "env",
            "prlimit",
            "nsenter",
            "setsid",
            "chown",
        ):
            if name != without and Path(place, name).exists() and not (folder / name).exists():
                (folder / name).symlink_to(Path(place, name))
    if bwrap is not None:
        (folder / "bwrap").unlink(missing_ok=True)
        (folder / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n", encoding="ascii")
        (folder / "bwrap").chmod(0o755)
    return str(folder)


@needs_jail
def test_a_jail_on_this_machine_holds(workspace: Path) -> None:
    report = check(workspace)

    assert report.failed == ()
    assert [row.name for row in report.rows] == ["jail", "cli", *ROWS]
    assert list(workspace.iterdir()) == []


def _without(*arguments: str) -> Callable[[OpenJail], None]:
    """Take arguments out of what bubblewrap gets."""

    def edit(jail: OpenJail) -> None:
        file = jail.folder.path / "arguments"
        text = file.read_text(encoding="utf-8")
        gone = "\0".join(arguments) + "\0"
        assert gone in text
        file.write_text(text.replace(gone, "", 1), encoding="utf-8")

    return edit


def _with(*arguments: str) -> Callable[[OpenJail], None]:
    """Add arguments before the root is made read-only."""

    def edit(jail: OpenJail) -> None:
        file = jail.folder.path / "arguments"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("--remount-ro\0/dev", "\0".join(arguments) + "\0--remount-ro\0/dev"), "utf-8")

    return edit


def _in_script(old: str, new: str) -> Callable[[OpenJail], None]:
    def edit(jail: OpenJail) -> None:
        text = jail.script.read_text(encoding="utf-8")
        assert old in text
        jail.script.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def _apart_by(command: str) -> Callable[[OpenJail], None]:
    """Start what the CLI starts in another way."""

    def edit(jail: OpenJail) -> None:
        (jail.folder.own / "apart" / "bash").write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="ascii")

    return edit


def _filter_that_allows_all(jail: OpenJail) -> None:
    (jail.folder.path / "seccomp").write_bytes(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))


@needs_jail
@pytest.mark.parametrize(
    ("hole", "noticed"),
    [
        (_without("--unshare-net"), {"port", "abstract", "namespaces"}),
        (_with("--bind", tempfile.gettempdir(), tempfile.gettempdir()), {"read", "write", "unix"}),
        (_with("--ro-bind", "/", "/var"), {"read"}),
        (_with("--ro-bind", "/usr/share", "/mnt"), set()),
        (_without("--unshare-pid"), {"namespaces"}),
        (_without("--unshare-ipc"), {"namespaces"}),
        (_without("--unshare-cgroup"), {"namespaces"}),
        (_in_script("env -i ", "env "), {"environment", "pid1", "processes"}),
        (_in_script("--seccomp 8 ", ""), {"privileges", "families"}),
        (_filter_that_allows_all, {"families"}),
        (_apart_by("exec /bin/bash"), {"apart"}),
        (_apart_by("exec bwrap --unshare-user --dev-bind / / -- /bin/bash"), {"apart"}),
        (_apart_by("exec bwrap --unshare-pid --bind / / -- /bin/nothing"), {"apart"}),
        (_in_script("[ -e /proc/self/fd/0 ]", "true"), {"jail"}),
        (_in_script("exec 8<", "exec 7</; exec 8<"), {"handles"}),
        (_in_script("exec 8<", "echo 'tried read'; exit 0; exec 8<"), {"jail"}),
    ],
    ids=[
        "network",
        "/tmp",
        "the host's root",
        "harmless",
        "processes",
        "ipc",
        "cgroup",
        "environment",
        "no filter",
        "any socket",
        "commands beside the CLI",
        "commands that can signal the CLI",
        "no commands",
        "closed input",
        "an open folder",
        "never started",
    ],
)
def test_every_hole_is_noticed(workspace: Path, hole: Callable[[OpenJail], None], noticed: set[str]) -> None:
    with a_jail(workspace) as jail:
        hole(jail)
        report = prove(jail)

    assert noticed <= {row.name for row in report.failed}
    assert report.ok == (not noticed)


@needs_jail
@needs_root
def test_a_jail_whose_user_is_root_for_the_kernel_is_noticed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "choose_tenant", lambda: None)
    with a_jail(workspace) as jail:
        _without("--ro-bind", "/proc/sys", "/proc/sys")(jail)
        failed = {row.name for row in prove(jail).failed}

    assert {"kernel", "workspace"} <= failed


def _is_now(monkeypatch: pytest.MonkeyPatch, **told: str) -> None:
    """Let the kernel say something else of itself."""
    names = ("sysname", "nodename", "release", "version", "machine")
    changed = os.uname_result([told.get(name, getattr(os.uname(), name)) for name in names])
    monkeypatch.setattr(os, "uname", lambda: changed)


@needs_jail
def test_a_pass_is_remembered_for_the_same_jail_only(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flights = 0

    def counted(jail: OpenJail, cli: Path | None, meanwhile: Callable[[], None]) -> Flight:
        nonlocal flights
        flights += 1
        return fly(jail, cli, meanwhile)

    monkeypatch.setattr(proof, "fly", counted)
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    for options in ({}, {}, {"read_only": True}, {"terminal": True}, {}):
        with a_jail(workspace, **options) as jail:
            assert prove(jail, meanwhile=count).ok
    assert flights == 3
    assert asked == 5
    _is_now(monkeypatch, release="another kernel")
    with a_jail(workspace) as jail:
        prove(jail)
    assert flights == 4


@pytest.mark.parametrize(("program", "package"), [("bwrap", "bubblewrap"), ("socat", "socat")])
def test_a_missing_program_fails_with_what_to_install(
    programs: Path, monkeypatch: pytest.MonkeyPatch, program: str, package: str
) -> None:
    monkeypatch.setenv("PATH", _programs(programs, without=program))
    done = CliRunner().invoke(check_command)

    assert done.exit_code == 1
    assert f"{package} was not found on PATH" in done.output
    assert f"apt install {package}" in done.output
    assert "NOT confined" in done.output


_REFUSED = "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"


@needs_jail
@pytest.mark.parametrize(
    ("sysctl", "value", "fix"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces"),
        ("none", "", "--security-opt seccomp=unconfined"),
    ],
)
def test_refused_namespaces_fail_with_the_exact_change(
    programs: Path, monkeypatch: pytest.MonkeyPatch, sysctl: str, value: str, fix: str
) -> None:
    monkeypatch.setenv("PATH", _programs(programs, bwrap=_REFUSED))
    monkeypatch.setattr(machine, "sysctl", lambda name: value if name == sysctl else "")
    report = check()

    assert not report.ok
    assert [row.name for row in report.failed] == ["jail"]
    assert "setting up uid map: Permission denied" in report.failed[0].detail
    assert fix in report.failed[0].fix
    with pytest.raises(UnconfinedError) as caught:
        report.demand()
    assert caught.value.rules == ("a jail around the agent",)
    assert fix in str(caught.value)


@needs_jail
@needs_root
def test_root_that_may_not_mount_fails_with_what_the_container_needs(workspace: Path) -> None:
    """As in a container: root, but without the capability."""
    toolkit = [sys.executable, "-m", "toolkit", "sandbox", "check", "--workspace", str(workspace)]
    without = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run([*without, *toolkit], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert "a mount namespace cannot be made: Operation not permitted" in done.stdout
    assert "--cap-add SYS_ADMIN" in done.stdout


@needs_jail
def test_a_canary_that_cannot_see_proves_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "_HELPERS", "show() { :; }\nvariables() { :; }\nexport() { :; }\n")
    with a_jail(workspace) as jail:
        failed = {row.name for row in prove(jail).failed}

    seen_by_words = {"environment", "pid1", "families", "apart", "nested", "tools"}
    assert failed == {"processes", "privileges", "namespaces", "workspace", *seen_by_words}


@needs_jail
def test_it_is_noticed_when_what_the_cli_starts_can_change_its_files(workspace: Path) -> None:
    with a_jail(workspace, has_cli=True) as jail:
        _apart_by("exec bwrap --unshare-user --unshare-pid --dev-bind / / -- /bin/bash")(jail)
        failed = prove(jail).failed

    assert [row.name for row in failed] == ["apart"]
    assert "apart changes /run/toolkit/home, apart changes /run/toolkit/tmp" in str(failed)


@pytest.mark.parametrize("bwrap", ["exit 0", "echo tried start; exit 0", "sleep 0; kill -9 $$"])
@needs_jail
def test_a_check_that_cannot_be_made_has_failed(programs: Path, monkeypatch: pytest.MonkeyPatch, bwrap: str) -> None:
    monkeypatch.setenv("PATH", _programs(programs, bwrap=bwrap))

    assert not check().ok


@needs_jail
def test_a_check_that_does_not_end_is_given_up_and_told_in_words(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "_SECONDS", 2)
    monkeypatch.setenv("PATH", _programs(programs, bwrap="exec tail -f /dev/null"))
    (row,) = check().failed

    assert row.detail.startswith("the check did not end within 2 s")


def test_another_system_is_not_supported_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _is_now(monkeypatch, sysname="Darwin")
    report = check()

    assert not report.ok
    assert "Darwin is not supported" in report.rows[0].detail


@needs_jail
def test_a_cli_that_does_not_start_inside_fails(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_text("#!/nowhere/node\n", encoding="ascii")
    cli.chmod(0o755)

    assert [row.name for row in check(cli_path=cli).failed] == ["cli"]
    assert [row.name for row in check(cli_path=tmp_path / "none").failed] == ["cli"]


@needs_jail
def test_the_command_prints_a_table_or_json() -> None:
    table = CliRunner().invoke(check_command)
    data = CliRunner().invoke(check_command, ["--json"])

    assert table.exit_code == data.exit_code == 0, table.output
    assert "ok    read         a planted secret stays unread" in table.output
    assert table.output.splitlines()[-1].startswith("confined (")
    report = json.loads(data.output)
    assert report["ok"] is True
    assert {row["name"] for row in report["rows"]} == {"jail", "cli", *ROWS}
    assert {state["name"] for state in report["limits"]} >= {"memory", "processes", "file", "tmp", "workspace"}


@needs_jail
def test_a_required_limit_that_cannot_hold_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.sandbox.limits.make_cgroup", lambda name, memory_bytes: None)

    assert check().ok
    assert check().not_enforced == ("memory",)
    assert [row.name for row in check(require=["memory"]).failed] == ["limit: memory"]


@needs_jail
def test_the_bait_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check()

    assert os.listdir(tmp_path) == []  # noqa: PTH208


@needs_jail
def test_a_temporary_folder_too_long_for_a_socket_is_told_in_words(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="long-") as folder:
        fits = Path(folder) / ("x" * (70 - len(folder) - 1))
        for place in (fits, Path(f"{fits}y")):
            place.mkdir()
            monkeypatch.setattr(tempfile, "tempdir", str(place))
            report = check(workspace)
            assert report.ok == (place == fits), report.failed
    assert [(row.name, row.fix) for row in report.failed] == [
        ("jail", "Set TMPDIR to a shorter path, for example: TMPDIR=/tmp")
    ]
    with pytest.raises(UnconfinedError, match="longer than 70 bytes"):
        run_confined(["true"], workspace)
