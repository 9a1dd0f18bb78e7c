"""The CLI's sandbox brings no waits: the socket it looks for is there at once, where nothing is reached through it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.jails import needs_jail, soon
from toolkit.sandbox import confine
from toolkit.sandbox.lending.quick import quick_bwrap, quick_socat

_TELL = "#!/bin/sh\nls {folder}\nprintf '%s\\n' \"$@\"\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="quick-") as made:  # a socket's path may not be long
        yield Path(made)


def _program(path: Path, text: str) -> Path:
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)
    return path


def _programs_in(jails: Path) -> set[str]:
    """What stands first on the PATH of the one jail that is open there."""
    [programs] = jails.glob("toolkit-jail-*/shown/own/bin")
    return {program.name for program in programs.iterdir()}


def test_the_socket_of_the_clis_proxy_is_seen_before_socat_runs(folder: Path, tmp_path: Path) -> None:
    real = _program(tmp_path / "real", _TELL.format(folder=folder))
    quick = _program(tmp_path / "socat", quick_socat(str(real), str(folder)))
    wanted = f"UNIX-LISTEN:{folder}/claude-http-01.sock,fork,reuseaddr"

    done = subprocess.run([quick, wanted, "TCP:localhost:1"], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == ["claude-http-01.sock", f"{wanted},unlink-early", "TCP:localhost:1"]


@pytest.mark.parametrize("first", ["-V", "UNIX-LISTEN:/elsewhere/claude-http-01.sock,fork,reuseaddr", "a b"])
def test_every_other_use_of_socat_is_passed_on(folder: Path, tmp_path: Path, first: str) -> None:
    real = _program(tmp_path / "real", _TELL.format(folder=folder))
    quick = _program(tmp_path / "socat", quick_socat(str(real), str(folder)))

    done = subprocess.run([quick, first, "b  c"], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == [first, "b  c"]


def test_bwrap_knows_its_version_without_being_started_and_all_else_is_passed_on(tmp_path: Path) -> None:
    real = _program(tmp_path / "real", '#!/bin/sh\necho "$0 $*" >> "$0.log"; echo bubblewrap 9.9\n')
    then = _program(tmp_path / "it's then", '#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    quick = _program(tmp_path / "bwrap", quick_bwrap(str(real), str(then)))
    (tmp_path / "real.log").unlink()

    def says(*words: str) -> str:
        return subprocess.run([quick, *words], capture_output=True, text=True, timeout=60, check=True).stdout

    assert says("--version") == "bubblewrap 9.9\n"
    assert not (tmp_path / "real.log").exists()
    assert says("--version", "a  b") == "<--version>\n<a  b>\n"
    assert says() == ""


def test_the_version_is_that_of_the_program_that_is_there_now(tmp_path: Path) -> None:
    real = _program(tmp_path / "real", "#!/bin/sh\necho bubblewrap 9.9\n")
    assert "9.9" in quick_bwrap(str(real), "then")

    _program(tmp_path / "real", "#!/bin/sh\necho bubblewrap 10.0.1\n")
    assert "10.0.1" in quick_bwrap(str(real), "then")

    _program(tmp_path / "real", "#!/bin/sh\nexit 1\n")
    assert "version" not in quick_bwrap(str(real), "then")


@needs_jail
def test_socat_puts_its_socket_in_the_place_of_the_file(folder: Path, tmp_path: Path) -> None:
    real = shutil.which("socat")
    assert real is not None
    quick, place = _program(tmp_path / "socat", quick_socat(real, str(folder))), folder / "claude-http-01.sock"
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = f"TCP:localhost:{server.getsockname()[1]},keepalive"
        running = subprocess.Popen([quick, f"UNIX-LISTEN:{place},fork,reuseaddr", to])
        try:
            assert soon(lambda: place.exists() and stat.S_ISSOCK(place.stat().st_mode))
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(60)
                soon(lambda: client.connect_ex(str(place)) == 0)
                server.settimeout(60)
                server.accept()[0].close()
        finally:
            running.kill()
            running.wait(60)


@needs_jail
@pytest.mark.parametrize("domains", [(), ("example.com",)])
async def test_a_jail_with_domains_has_the_socat_of_the_system(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, domains: tuple[str, ...]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    profile = "allowlist" if domains else "offline"
    (tmp_path / "workspace").mkdir()
    async with confine(tmp_path / "workspace", profile, domains, api_url="http://127.0.0.1:9", api_key="fake"):
        assert ("socat" in _programs_in(folder)) == (not domains)


@needs_jail
@pytest.mark.parametrize("domains", [(), ("example.com",)])
async def test_an_offline_cli_reads_no_certificates_of_the_machine_and_one_with_domains_does(
    tmp_path: Path, domains: tuple[str, ...]
) -> None:
    tells = _program(tmp_path / "cli", "#!/bin/sh\nenv\n")
    (tmp_path / "workspace").mkdir()
    profile = "allowlist" if domains else "offline"
    api = "http://127.0.0.1:9"
    async with confine(tmp_path / "workspace", profile, domains, api_url=api, api_key="fake", cli_path=tells) as jail:
        start = [str(jail.options()["cli_path"])]
        told = await asyncio.to_thread(subprocess.run, start, capture_output=True, text=True, timeout=60, check=True)

    assert ("CLAUDE_CODE_CERT_STORE=bundled" in told.stdout.splitlines()) == (not domains)
