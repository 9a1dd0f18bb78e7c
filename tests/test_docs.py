"""What the README and the docs show is run: every Python block, in order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
ELSEWHERE = {"docs/serving.md"}
"""Programs that serve, run by tests/serving."""
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!http)([^)#]+)")


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page not in ELSEWHERE])
def test_the_python_on_a_page_runs(page: str, tmp_path: Path) -> None:
    """Blocks that hold tests are run by pytest, with the plugin's fixtures; the others as one program."""
    plain = [block for block in blocks(page) if "\nasync def test_" not in block and "\ndef test_" not in block]
    tests = [block for block in blocks(page) if block not in plain]
    env = {**os.environ, "TOOLKIT_HOME": str(tmp_path / "home")}
    (tmp_path / "src").mkdir()  # what the pages mount
    for name in ("prices.py", "app.py"):
        (tmp_path / "src" / name).write_text("RATE = 1\n", encoding="utf-8")
    program = tmp_path / "page.py"
    program.write_text("\n\n".join(plain), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for number, block in enumerate(tests):
        (tmp_path / f"test_page_{number}.py").write_text(block, encoding="utf-8")
    if tests:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_links_on_a_page_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [link for link in _LINK.findall(text) if not ((ROOT / page).parent / link).exists()]
    assert missing == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as code hosts make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_the_headings_that_a_page_links_to_are_there(page: str) -> None:
    place = ROOT / page
    links = re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", place.read_text(encoding="utf-8"))
    missing = [
        f"{file}#{anchor}" for file, anchor in links if anchor not in headings(place.parent / file if file else place)
    ]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/how-it-works.md", "docs/words.md", "CONTRIBUTING.md"])
def test_the_files_and_folders_a_page_names_are_there(page: str) -> None:
    """Each is named from the project's root, from the workspace's package, or as a neighbour of the one before it."""
    named = re.findall(r"`([\w.]+/[\w./]*|\w+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 20
    before, missing = ROOT, []
    for name in named:
        places = [folder / name for folder in (ROOT, ROOT / "workspace" / "toolkit_workspace", before, before.parent)]
        found = next((place for place in places if place.exists()), None)
        missing += [] if found else [name]
        before = (found or before) if (found or before).is_dir() else (found or before).parent
    assert missing == []


def test_the_wheel_that_the_pages_name_is_the_one_that_is_built() -> None:
    named = {
        version
        for page in (*PAGES, "examples/serve_for_a_team/README.md")
        for version in re.findall(r"agent_toolkit_mcp-([\d.]+)-py3", (ROOT / page).read_text(encoding="utf-8"))
    }
    assert named == {tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]}
