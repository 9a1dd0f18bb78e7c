"""The API reference is built from docstrings, has every public name, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

import toolkit
from tests.docs_api import DOORS, build


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """Every page by its file."""
    folder = tmp_path_factory.mktemp("reference")
    build(folder)
    return {file: file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.html"))}


def test_every_door_has_a_page_and_every_public_name_a_place(reference: dict[Path, str]) -> None:
    first = min(reference, key=lambda file: len(file.parts))
    pages = {".".join(file.relative_to(first.parent).with_suffix("").parts): text for file, text in reference.items()}
    assert set(DOORS) <= set(pages)
    missing = [name for name in toolkit.__all__ if f'id="{name}"' not in pages["toolkit"]]
    assert [name for name in missing if not name.startswith("__")] == []


def test_the_links_of_the_reference_lead_somewhere(reference: dict[Path, str]) -> None:
    places = {file: set(re.findall(r'\bid="([^"]+)"', text)) for file, text in reference.items()}
    missing = []
    for file, text in reference.items():
        for link in re.findall(r'href="([^"]+)"', text):
            if re.match(r"[a-z]+:|\$", link):
                continue  # elsewhere, or filled in by the search
            name, _, anchor = unquote(link).partition("#")
            target = (file.parent / name).resolve() if name else file
            # pdoc also links to members that it shows nowhere, such as inherited ones: then their class has to be there.
            is_there = target in places and (not anchor or {anchor, anchor.rpartition(".")[0]} & places[target])
            if not is_there:
                missing.append(f"{file.name}: {link}")
    assert missing == []
