"""The files to serve a team with do what they say: the image's steps are run, and systemd takes the unit.

The steps run in a jail that has the image's folders and users and a network of its own, so that nothing of the
machine is touched. The base image and the package index are what this machine has: its Python and the dependencies that
are installed. The wheel is made from this tree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.sandbox.jails import needs_jail
from tests.serving._client import BOUND
from tests.test_packaging import ROOT, link_dependencies, run

EXAMPLE = ROOT / "examples" / "serve_for_a_team"
TOKEN = "a-token-of-the-test-0123456789abcdef"
LIVES = """
import json, subprocess, sys, time, urllib.request
entry, health, token = json.loads(sys.argv[1])
with subprocess.Popen(entry, stderr=subprocess.PIPE, text=True) as server:
    deadline = time.monotonic() + 30
    while (healthy := subprocess.run(health, capture_output=True).returncode) and time.monotonic() < deadline:
        if server.poll() is not None:
            break
    request = urllib.request.Request("http://127.0.0.1:8000/metrics", headers={"Authorization": "Bearer " + token})
    metrics = urllib.request.urlopen(request, timeout=10).status if not healthy else 0
    server.terminate()
    said = server.communicate(timeout=30)[1]
sick = subprocess.run(health, capture_output=True).returncode
print(json.dumps({"healthy": healthy, "metrics": metrics, "ended": server.returncode, "sick": sick, "said": said}))
"""
"""Start the image's command, ask for its health by the image's own check, end it as Docker does, and ask again."""


@dataclass
class Image:
    """A Dockerfile, and a folder that is changed by its steps."""

    root: Path
    path: str
    steps: list[tuple[str, str]]
    env: dict[str, str] = field(default_factory=dict)
    user: int = 0
    workdir: str = "/"

    def step(self, name: str, text: str) -> None:
        """Do what one line says."""
        if name == "ENV":
            self.env |= dict(pair.split("=", 1) for pair in text.split())
        elif name == "RUN":
            self.inside("sh", "-c", text)
        elif name == "WORKDIR":
            self.workdir = text
            (self.root / text.lstrip("/")).mkdir(parents=True)
        elif name == "COPY":
            *patterns, into = text.split()
            for pattern in patterns:
                (file,) = (self.root / "context").glob(pattern)
                shutil.copy(file, self.root / Path(self.workdir, into).as_posix().lstrip("/"))
        elif name == "USER":
            self.user = int(text)

    def said(self, name: str) -> str:
        """The text of the one line with this name."""
        (text,) = [text for each, text in self.steps if each == name]
        return text

    def inside(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command as in the image."""
        jail = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/"]
        jail += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--tmpfs", "/var/tmp"]
        for folder in ("tmp", "etc", "srv", "run/secrets"):
            jail += ["--bind", str(self.root / folder), f"/{folder}"]
        jail += ["--bind", str(self.root), str(self.root)]
        jail += ["--ro-bind", sys.prefix, sys.prefix]  # where the dependencies lie: it may be below /tmp
        jail += ["--uid", str(self.user), "--gid", str(self.user), "--chdir", self.workdir, "--clearenv"]
        for key, value in {"PATH": self.path, "LANG": "C.UTF-8", **self.env}.items():
            jail += ["--setenv", key, value]
        return run(*jail, *argv, cwd=self.root)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The base image: the machine's own system, with a Python of its own and a few users."""
    root = tmp_path_factory.mktemp("image")
    for folder in ("tmp", "etc", "srv", "run/secrets"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(EXAMPLE, root / "context")
    for name in ("passwd", "group", "shadow", "gshadow"):
        (root / "etc" / name).write_text("root:x:0:0::/root:/bin/sh\n" if name == "passwd" else "", encoding="utf-8")
    for name in ("login.defs", "ld.so.cache", "nsswitch.conf", "hosts"):
        if Path("/etc", name).exists():
            shutil.copy(Path("/etc", name), root / "etc" / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", root / "context", ROOT, cwd=root)
    venv.create(root / "python", with_pip=False, symlinks=True)
    bin_folder = root / "python" / "bin"
    probe = "import sysconfig; print(sysconfig.get_path('purelib'))"
    link_dependencies(Path(run(bin_folder / "python", "-c", probe, cwd=root).stdout.strip()))
    (bin_folder / "pip").write_text('#!/bin/sh\nexec python -m pip "$@"\n', encoding="utf-8")
    (bin_folder / "pip").chmod(0o755)
    index = {"PIP_NO_INDEX": "1"}
    return Image(root, f"{bin_folder}:/usr/sbin:/usr/bin:/sbin:/bin", steps(), index)


def steps() -> list[tuple[str, str]]:
    """The lines of the Dockerfile."""
    text = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


@needs_jail
@needs(shutil.which("useradd", path=f"{os.environ['PATH']}:/usr/sbin"), "needs useradd")
def test_the_steps_of_the_dockerfile_make_a_server_that_is_healthy_and_ends(image: Image) -> None:
    for name, text in image.steps:
        image.step(name, text)
    assert f"toolkit:x:{image.user}:" in (image.root / "etc" / "passwd").read_text(encoding="utf-8")
    tokens = image.root / "run" / "secrets" / "tokens"
    tokens.write_text(f"alice all {TOKEN}\n", encoding="utf-8")
    tokens.chmod(0o600)
    health = json.loads(image.said("HEALTHCHECK").partition("CMD ")[2])
    given = json.dumps([json.loads(image.said("ENTRYPOINT")), health, TOKEN])
    found: dict[str, Any] = json.loads(image.inside("python", "-c", LIVES, given).stdout)
    said = found.pop("said")
    assert found == {"healthy": 0, "metrics": 200, "ended": -signal.SIGTERM, "sick": 1}, said
    assert "0.0.0.0:8000" in said
    assert TOKEN not in said


def test_the_image_is_small_and_not_root() -> None:
    said = dict(steps())
    assert said["FROM"].endswith("-slim")
    assert int(said["USER"]) > 0
    assert said["STOPSIGNAL"] == "SIGTERM"
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}
    assert said.keys() <= known


@needs(shutil.which("systemd-analyze"), "systemd-analyze is not installed (./dev says how)")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = (EXAMPLE / "toolkit-team.service").read_text(encoding="utf-8")
    unit = tmp_path / "toolkit-team.service"
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")
    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=BOUND)
    own = [line for line in done.stderr.splitlines() if "toolkit-team" in line]
    assert (done.returncode, own) == (0, []), done.stderr
