"""The cookbook's recipes for CI and cron do what they say, as far as one machine can show it.

The YAML is parsed, and its shell lines are run in a fresh clone, one after the other, as the service would: with the wheel
that we build, packages from the index, a scripted model and a repository to push to. What is left out is in `UNTRIED`.
The unit for systemd and the container's files have tests of their own in tests/cli/test_team_files.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.readme.page import ROOT
from tests.readme.people import index_is_reached
from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
UNTRIED = {
    "actions/checkout@v4": "the service clones; the test does it",
    "actions/setup-python@v5": "the service installs Python; the test makes an environment",
    "actions/upload-artifact@v4": "the service keeps the file",
    "sudo apt-get update -q && sudo apt-get install -y -q bubblewrap socat": "changes the machine",
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0": "changes the machine",
}
"""What of the workflows no test runs, and why."""
PROJECT = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n[tool.setuptools]\npy-modules = ["prices"]\n',
    "prices.py": "def price(cents, count):\n    return cents\n",
    "test_prices.py": "from prices import price\n\n\ndef test_price():\n    assert price(250, 3) == 750\n",
    ".gitignore": ".venv\n*.egg-info\n__pycache__\n",
    "TODO.md": "- count every piece\n",
}


def block(title: str, language: str) -> str:
    section = COOKBOOK.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository that the service has, and a clone of it in `shop`."""
    source, git = tmp_path / "source", ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    source.mkdir()
    for name, content in PROJECT.items():
        (source / name).write_text(content, encoding="utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]):
        subprocess.run([*git, *words], cwd=source, check=True, timeout=30)
    subprocess.run(["git", "clone", "-q", "--bare", source, tmp_path / "origin.git"], check=True, timeout=30)
    subprocess.run(["git", "clone", "-q", tmp_path / "origin.git", tmp_path / "shop"], check=True, timeout=30)
    return tmp_path


@pytest.fixture
def api(place: Path) -> Iterator[ScriptedAPI]:
    file = str(place / "shop" / "prices.py")
    edit = {"file_path": file, "old_string": "return cents", "new_string": "return cents * count"}
    turns = [[tool_use("Read", file_path=file)], [tool_use("Edit", **edit)], [text("Every piece is paid.")]]
    with ScriptedAPI(*turns, otherwise=[text("Done.")], strict=False) as served:
        yield served


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not index_is_reached():
        assert not os.environ.get("CI"), "pip reaches no index"
        pytest.skip("pip reaches no index")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return next(out.glob("*.whl"))


class Job:
    """One job of a service: shell lines, each with the environment of its step."""

    def __init__(self, place: Path, api: ScriptedAPI, **env: str) -> None:
        self.clone = place / "shop"
        home = place / "home"
        home.mkdir(exist_ok=True)
        self.env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **env}
        self.env |= {"ANTHROPIC_BASE_URL": api.url, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}

    def shell(self, script: str, **env: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.clone,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


def fixed_on(place: Path, branch: str) -> bool:
    """Whether the fix was pushed on that branch."""
    show = ["git", "-C", str(place / "origin.git"), "show", f"{branch}:prices.py"]
    return "cents * count" in subprocess.run(show, capture_output=True, text=True, timeout=30).stdout


def filled_in(value: Any, known: dict[str, str]) -> str:
    """A value of the workflow with its expressions replaced, as the service does."""
    return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: known[found[1]], str(value))


@needs_jail
def test_the_github_workflow(place: Path, api: ScriptedAPI, wheel: Path) -> None:
    workflow = yaml.safe_load(block("GitHub Actions", "yaml"))
    job = workflow["jobs"]["agent"]
    known = {"github.run_id": "77", "secrets.ANTHROPIC_API_KEY": "not-a-key", "inputs.task": 'Fix "it"; $(touch no)'}
    assert set(workflow[True]["workflow_dispatch"]["inputs"]) == {"task"}  # YAML reads `on` as true
    env = {name: filled_in(value, known) for name, value in job["env"].items()}
    made = Job(place, api, **env)
    subprocess.run([sys.executable, "-m", "venv", str(place / "python")], check=True, timeout=60)
    made.env["PATH"] = f"{place / 'python' / 'bin'}:{made.env['PATH']}"
    (made.clone / "ci").mkdir()
    (made.clone / "ci" / wheel.name).write_bytes(wheel.read_bytes())
    for step in job["steps"]:
        if step.get("uses", step.get("run")) in UNTRIED:
            continue
        assert step.get("if", "always()") == "always()"
        made.shell(step["run"], **{name: filled_in(value, known) for name, value in step.get("env", {}).items()})
    assert fixed_on(place, "agent/77")
    assert "<html" in (made.clone / "report.html").read_text(encoding="utf-8")
    assert api.requests[0].contains('Fix \\"it\\"; $(touch no)') or api.requests[0].contains('Fix "it"; $(touch no)')
    assert not (made.clone / "no").exists()


@needs_jail
def test_the_gitlab_job(place: Path, api: ScriptedAPI, wheel: Path) -> None:
    job = yaml.safe_load(block("GitLab CI", "yaml"))["agent"]
    variables = {"CI_PIPELINE_ID": "5", "CI_SERVER_HOST": "git.example.org", "CI_PROJECT_PATH": "team/shop"}
    variables |= {"CI_PROJECT_DIR": str(place / "shop"), "TASK": "Fix it.", "PUSH_TOKEN": "t0ken", "BRANCH": "agent/5"}
    assert job["variables"]["BRANCH"] == "agent/$CI_PIPELINE_ID"
    assert job["rules"] == [{"if": "$TASK"}]
    made = Job(place, api, ANTHROPIC_API_KEY="not-a-key", **variables)
    there = "https://agent:t0ken@git.example.org/team/shop.git"
    made.shell(f"git config --global url.file://{place}/origin.git.insteadOf {there}")
    (made.clone / "ci").mkdir()
    (made.clone / "ci" / wheel.name).write_bytes(wheel.read_bytes())
    made.shell("\n".join(job["script"]))
    made.shell("\n".join(job["after_script"]))
    assert fixed_on(place, "agent/5")
    assert all((made.clone / path).is_file() for path in job["artifacts"]["paths"])


@needs_jail
def test_the_script_for_cron(place: Path, api: ScriptedAPI) -> None:
    """pytest is a stand-in of two lines here: what is tried is the script, with cron's short environment."""
    home = place
    (home / "toolkit-env").symlink_to(sys.prefix)
    (home / ".config").mkdir()
    (home / ".config" / "toolkit-key").write_text(
        f"export ANTHROPIC_API_KEY=not-a-key ANTHROPIC_BASE_URL={api.url}\n", encoding="utf-8"
    )
    bin_folder = home / "shop" / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder.parent / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    check = "import prices; assert prices.price(250, 3) == 750"
    (bin_folder / "pytest").write_text(f'#!/bin/sh\nexec python3 -c "{check}"\n', encoding="utf-8")
    (bin_folder / "pytest").chmod(0o755)
    script = home / "bin" / "nightly"
    script.parent.mkdir()
    script.write_text(block("cron", "sh"), encoding="utf-8")
    script.chmod(0o755)
    entry = block("cron", "text").splitlines()[-1]
    fields = re.fullmatch(r"((?:\S+ ){4}\S+)  (.+)", entry)
    assert fields
    assert all(re.fullmatch(r"\*|\d+(-\d+)?", one) for one in fields[1].split())
    assert "%" not in fields[2]
    done = subprocess.run(
        ["/bin/sh", "-c", fields[2]],
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"},
        timeout=200,
    )
    assert done.returncode == 0, (home / "nightly.log").read_text(encoding="utf-8")
    branches = subprocess.run(
        ["git", "branch", "--list", "agent/nightly-*"], cwd=home / "shop", capture_output=True, timeout=30
    )
    assert b"agent/nightly-20" in branches.stdout


def test_what_is_not_tried_is_still_on_the_page() -> None:
    assert [name for name in UNTRIED if name not in COOKBOOK] == []
