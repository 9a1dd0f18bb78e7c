"""A prompt may be texts and pictures, or come piece by piece; what is kept of it is its text, and each picture once."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.toolset import PIXEL
from toolkit import Image, Prompt, Text, run
from toolkit.errors import RunError
from toolkit.report import render_report
from toolkit.runs import RunSpec, list_runs, load_run, start
from toolkit.runs.kinds import OptionError
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text

pytestmark = pytest.mark.usefixtures("toolkit_home")
SOURCE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}
PICTURE = {"type": "image", "source": SOURCE}


def sent(cli: FakeCLI) -> list[Any]:
    """The contents of the prompts the CLI was given."""
    return [frame["message"]["content"] for frame in cli.received if frame["type"] == "user"]


async def test_texts_and_pictures_reach_the_model_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "screen.png"
    file.write_bytes(PIXEL)
    cli = FakeCLI([text("A pixel.")])
    parts: list[Any] = ["What is this?", Image(file), Text("And this?"), Image(PIXEL), PICTURE]
    result = await run(parts, before_run=lambda spec: "Today is Monday.", transport=cli)
    assert result.ok
    texts = [{"type": "text", "text": words} for words in ("Today is Monday.", "What is this?", "And this?")]
    assert sent(cli) == [[texts[0], texts[1], PICTURE, texts[2], PICTURE, PICTURE]]


async def test_a_picture_is_kept_once_and_told_in_words() -> None:
    cli = FakeCLI([text("One.")], [text("Two.")])
    async with start(["Look.", Image(PIXEL)], transport=cli) as live:
        await live.result()
        await live.send([Image(PIXEL), "Again."])
    stored = load_run(live.id)
    told = [event.data for event in stored.events() if event.name == "lifecycle.started"]
    assert [data["prompt"] for data in told] == [
        "Look.\n\n[image: image/png, 70 bytes]",
        "[image: image/png, 70 bytes]\n\nAgain.",
    ]
    [file] = (stored.folder / "attachments").iterdir()
    kept = {"type": "image", "media_type": "image/png", "bytes": 70, "file": f"attachments/{file.name}"}
    assert [data["attachments"] for data in told] == [[kept], [kept]]
    assert file.read_bytes() == PIXEL
    for name in ("run.json", "events.jsonl", "result.json"):
        assert PICTURE["source"]["data"] not in (stored.folder / name).read_text()  # type: ignore[index]
    assert json.loads((stored.folder / "run.json").read_text())["prompt"] == "Look.\n\n[image: 70 bytes]"


async def test_the_report_shows_the_pictures_of_a_prompt() -> None:
    result = await run(["Look.", Image(PIXEL)], transport=FakeCLI([text("One.")]))
    page = render_report(load_run(result.run))
    assert f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}" in page
    assert "img-src data:" in page


async def test_prompts_from_an_iterator_are_turns_of_one_conversation() -> None:
    async def prompts() -> AsyncIterator[Any]:
        yield "One."
        yield ["Two.", Image(PIXEL)]
        yield {"type": "user", "message": {"role": "user", "content": "Three."}, "parent_tool_use_id": None}

    cli = FakeCLI([text("1")], [text("2")], [text("3")])
    async with start(prompts(), transport=cli) as live:
        heard = [event.name async for event in live]
        result = await live.result()
        with pytest.raises(RunError, match="is over"):
            await live.send("Four.")
    assert (result.ok, result.text, heard.count("lifecycle.finished")) == (True, "3", 3)
    assert sent(cli) == ["One.", [{"type": "text", "text": "Two."}, PICTURE], "Three."]
    assert load_run(live.id).facts["prompt"] == "One."


async def test_a_text_and_an_iterator_of_that_text_come_to_the_same() -> None:
    async def one() -> AsyncIterator[str]:
        yield "Go."

    def cli() -> FakeCLI:
        return FakeCLI(Turn([text("Done.")], id="msg_1"))

    plain, piecewise = await run("Go.", transport=cli()), await run(one(), transport=cli())
    alike = ("code", "text", "total", "stop")
    assert [getattr(plain, name) for name in alike] == [getattr(piecewise, name) for name in alike]


async def test_an_iterator_without_a_prompt_starts_nothing() -> None:
    async def nothing() -> AsyncIterator[str]:
        return
        yield ""

    cli = FakeCLI([text("Done.")], strict=False)
    with pytest.raises(OptionError, match="its iterator gave nothing"):
        await run(nothing(), transport=cli)
    assert cli.received == []


async def test_an_iterator_that_fails_ends_the_run_with_what_it_gave_until_then() -> None:
    async def failing() -> AsyncIterator[str]:
        yield "One."
        raise ZeroDivisionError("no more")

    result = await run(failing(), transport=FakeCLI([text("1")]))
    stored = load_run(result.run)
    assert (result.ok, result.code) == (False, "internal")
    assert result.cause == "the iterator of prompts failed: ZeroDivisionError: no more"
    assert [event.name for event in stored.events()].count("lifecycle.started") == 1
    for told in (result, stored.result()):
        assert (told.text, told.total.total, len(told.calls), told.session is not None) == ("1", 15, 1, True)


async def test_an_item_that_is_no_prompt_ends_the_run_with_what_it_gave_until_then() -> None:
    async def mistaken() -> AsyncIterator[Any]:
        yield "One."
        yield 5

    result = await run(mistaken(), transport=FakeCLI([text("1")]))
    assert (result.code, result.text, len(result.calls)) == ("bad_request", "1", 1)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([], "the prompt is empty"),
        (["Go.", ""], r"prompt\[1\] is an empty text"),
        ([b"bytes"], "a part of a prompt is a text, an Image"),
        ([{"type": "tool_result"}], "one of text, image, document, not 'tool_result'"),
        ([{"type": "image"}], "a block of type image has a 'source'"),
        ([{"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}], "a source of type 'url'"),
        ([{"type": "document", "source": {"type": "file", "file_id": "f"}}], "a source of type 'file'"),
        ([{**PICTURE, "source": {**SOURCE, "media_type": "image/tiff"}}], "the model API takes no image/tiff"),
        ([{**PICTURE, "source": {**SOURCE, "data": "!"}}], "its bytes in base64"),
        ([{**PICTURE, "source": {**SOURCE, "data": ""}}], "there is nothing in this picture"),
        ([Prompt], "a part of a prompt is a text, an Image"),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused(prompt: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        RunSpec(prompt)


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        (Image("nowhere.png"), "the picture 'nowhere.png' cannot be read: No such file"),
        (Image("/dev/null"), "the picture '/dev/null' is not a file"),
        (Image("pipe.png"), "the picture 'pipe.png' is not a file"),
        (Image(b"BM....", mime="image/bmp"), "the model API takes no image/bmp"),
        (Image(b"what"), "these bytes are not a known image type"),
        (Image(b"what", mime="image/png"), "these bytes are no picture"),
        (Image(b"", mime="image/png"), "there is nothing in this picture"),
    ],
)
async def test_a_picture_that_cannot_be_sent_starts_nothing(
    picture: Image, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    monkeypatch.chdir(tmp_path)
    cli = FakeCLI([text("Done.")], strict=False)
    with pytest.raises(OptionError, match=says):
        await run(["Look.", picture], transport=cli)
    assert cli.received == []
    assert [stored.state for stored in list_runs()] == ["finished"]


async def test_pictures_and_prompts_from_an_iterator_reach_the_model_from_inside_the_jail() -> None:
    async def prompts() -> AsyncIterator[Any]:
        yield ["What is @this?", Image(PIXEL)]
        yield "/And now?"

    with ScriptedAPI([text("A pixel.")], [text("Still.")]) as api:
        result = await run(prompts(), api_url=api.url, api_key="none")
        assert (result.code, result.text) == ("ok", "Still.")
        first, second = (request["messages"] for request in api.requests)
    assert {"type": "text", "text": "What is @this?"} in first[0]["content"]
    assert [block["source"] for block in first[0]["content"] if block["type"] == "image"] == [PICTURE["source"]]
    assert "/And now?" in str(second[-1])
