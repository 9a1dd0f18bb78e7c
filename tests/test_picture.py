"""The picture in the documentation is drawn from its text, and what it names is there."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.docs_picture import PICTURE, TEXT, picture, read

ROOT = Path(__file__).parents[1]
FLOWS = read(TEXT.read_text(encoding="utf-8"))


def test_the_picture_is_what_its_text_says() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run: python -m tests.docs_picture"


def test_every_step_is_drawn_and_lives_where_the_picture_says() -> None:
    boxes = [box for flow in FLOWS for column in flow.columns for box in column]
    drawn = {text.text for text in ElementTree.fromstring(picture()).iter("{http://www.w3.org/2000/svg}text")}
    assert {box.name for box in boxes} <= drawn
    assert [box.place for box in boxes if not (ROOT / box.place).exists()] == []
