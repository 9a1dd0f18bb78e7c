"""A project to set up, a registry to set it up from, and a home for the layers of each test."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.setups.registry import HOST, Registry, npm_lock, resolve_to
from toolkit.runs import RunResult, run
from toolkit.sandbox.gate import tunnel
from toolkit.testing import ScriptedAPI
from toolkit.workspace import HostMount, WorkspaceSection

PIP = f"python3 -m venv .venv && .venv/bin/pip install --no-cache-dir --cert cert.pem -i https://{HOST}/simple"
"""The beginning of a command that installs from the registry."""
NPM = "npm ci --no-audit --no-fund"
NPM_ENV = {"npm_config_registry": f"https://{HOST}/", "npm_config_cafile": "cert.pem"}


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its layers to itself."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    folder = tmp_path / "registry"
    folder.mkdir()
    for name in ("public_addresses", "dial"):
        monkeypatch.setattr(tunnel, name, getattr(tunnel, name))  # put back afterwards
    with Registry(folder) as found:
        resolve_to(found.port)
        yield found


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project in a repository, whose tests need what a setup installs."""
    top = tmp_path / "shop"
    top.mkdir()
    files = {
        "requirements.txt": "tiny==1.0\n",
        "shop.py": "import tiny\n\n\ndef total():\n    return tiny.SIZE\n",
        "test_shop.py": "import unittest, shop\n\n\nclass T(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(shop.total(), 6)\n",
        ".gitignore": ".venv/\nnode_modules/\n__pycache__/\n",
    }
    for name, text in files.items():
        (top / name).write_text(text, encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=top, check=True, capture_output=True, timeout=30)
    return top


@pytest.fixture
def trusting(shop: Path, registry: Registry) -> Path:
    """The project, with the registry's certificate in it."""
    shutil.copy(registry.certificate, shop / "cert.pem")
    return shop


@pytest.fixture
def node_shop(trusting: Path) -> Path:
    """The same as an npm package."""
    (trusting / "package-lock.json").write_text(npm_lock(), encoding="utf-8")
    (trusting / "package.json").write_text(
        '{"name": "shop", "version": "1.0.0", "dependencies": {"tiny-js": "1.0.0"},'
        ' "scripts": {"test": "node -e \\"if (require(\'tiny-js\') !== 6) throw 1; console.log(\'passed\')\\""}}\n',
        encoding="utf-8",
    )
    return trusting


def section(top: Path, **options: Any) -> WorkspaceSection:
    return WorkspaceSection([HostMount(top, **options)], [top.parent])


async def go(api: ScriptedAPI, top: Path, **options: Any) -> RunResult[Any]:
    """A run on a copy of a project."""
    options = {"workspace": section(top), **options} if "resume" not in options else options
    return await asyncio.wait_for(run("Go.", api_url=api.url, api_key="sk-the-real-one", **options), 90)
