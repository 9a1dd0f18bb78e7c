"""What the pages about confinement say is still so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.cli.sandbox import sandbox
from toolkit.sandbox import KNOWN_CLI
from toolkit.testing import RealCLI

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "confinement.md", ROOT / "sandbox-settings" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_file_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"toolkit sandbox (\w+)", text)) <= set(sandbox.commands)
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("name", sandbox.commands)
def test_the_summary_of_a_sandbox_command_is_the_first_line_of_its_help(name: str) -> None:
    told = CliRunner().invoke(sandbox, ["--help"], terminal_width=80).output
    first = (sandbox.commands[name].help or "").partition("\n")[0]
    assert re.search(rf"^  {name} +{re.escape(first)}$", told, re.MULTILINE)


def test_the_settings_model_is_that_of_the_cli_we_ship_with() -> None:
    """On an upgrade: read the new CLI's `sandbox` and `permissions` keys, then move KNOWN_CLI."""
    with RealCLI("http://unused") as cli:
        done = subprocess.run(
            [cli.cli_path, "--version"], env=cli.env(), capture_output=True, text=True, timeout=60, check=True
        )
    assert done.stdout.split()[0] == KNOWN_CLI
    assert KNOWN_CLI in PAGES[0].read_text(encoding="utf-8")
