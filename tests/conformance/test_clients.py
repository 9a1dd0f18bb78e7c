"""Other people's clients talk to us: the TypeScript SDK, fastmcp's client, and the Inspector with its strict checks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suite import FASTMCP, HERE, NPM, environment, node, served
from tests.needs import needs

BOUND = 60.0
TOLD = {
    "text": "This is a simple text response for testing.",
    "resource": '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    "prompt": "Prompt with arguments: arg1='a', arg2='b'",
    "asked": "Hello, Ada!",
}
has_node = needs(node() is not None, "the npm packages are not fetched: ./dev test does it")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(str(HERE / "server.py"), tmp_path_factory.mktemp("clients")) as url:
        yield url


def _run(argv: list[str], env: dict[str, str] | None = None) -> Any:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


def _matches(told: dict[str, Any]) -> bool:
    return {key: told[key] for key in TOLD} == TOLD and told["tools"] > 20


@has_node
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_typescript_sdk_lists_calls_reads_gets_completes_and_is_asked(way: str, url: str) -> None:
    env = {**environment(), "PACKAGES": str(NPM.parent)}
    ours = [sys.executable, "-m", "toolkit", "serve", str(HERE / "server.py")] if way == "stdio" else [url]
    told = _run([str(node()), str(HERE / "client.mjs"), *ours], env)
    assert _matches(told)
    assert told["completion"] == ["paris", "park", "party"]


@needs(FASTMCP.exists(), "fastmcp's client is not fetched: ./dev test does it")
def test_fastmcps_client_lists_calls_reads_gets_and_is_asked(url: str) -> None:
    assert _matches(_run([str(FASTMCP), str(HERE / "fastmcp_client.py"), url]))


def _inspect(target: str, cwd: Path) -> None:
    ours = [sys.executable, "-m", "toolkit", "serve", target]
    argv = [str(NPM / ".bin" / "mcp-inspector"), "--cli", "--strict", *ours, "--method", "tools/list"]
    done = subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads(done.stdout)["tools"]
    assert "warn" not in done.stderr.lower()


@has_node
@pytest.mark.parametrize("target", ["planning", "files:.", "notes:notes.db"])
def test_the_inspector_has_no_strict_warning_about_a_ready_made_server(target: str, tmp_path: Path) -> None:
    _inspect(target, tmp_path)


@has_node
def test_the_inspector_has_no_strict_warning_about_a_workspace(tmp_path: Path) -> None:
    host = tmp_path / "project"
    host.mkdir()
    (host / "a.txt").write_text("a\n", encoding="utf-8")
    prepare = [sys.executable, "-m", "toolkit", "workspace", "prepare", "--mount", str(host)]
    done = subprocess.run(prepare, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND, check=True)
    prepared = Path(done.stdout.strip())
    try:
        _inspect(f"workspace:{prepared}", tmp_path)
    finally:
        shutil.rmtree(prepared)
