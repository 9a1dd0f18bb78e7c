"""The CLI's sandbox brings no waits: the socket it looks for is there at once, where nothing is reached through it."""

from __future__ import annotations

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
from toolkit.sandbox.lending.quick import quick_socat

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
    [programs] = jails.glob("toolkit-jail-*/shown/bin")
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
