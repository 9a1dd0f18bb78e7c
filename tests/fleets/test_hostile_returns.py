"""A worker that lies about a run: nothing is taken in, or nothing but what the caller knows by itself is believed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.travelled import Fleet
from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.packs import PackedHome
from toolkit.fleets.parcels import Packing, ParcelError, send
from toolkit.fleets.returns import Brought, bring, take_in
from toolkit.workspace import HostMount, WorkspaceSection

SESSION = "11111111-2222-4333-8444-555555555555"
BEGAN = {"format": 1, "run": "one", "began": 1.0, "prompt": "Work."}


def _event(kind: str, stream: str = "lifecycle", **data: Any) -> dict[str, Any]:
    return {"stream": stream, "kind": kind, "t": 1.0, "run": "one", "id": "one", "parent": None, "data": data}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def packed(fleet: Fleet, tmp_path: Path) -> PackedHome:
    folder = tmp_path / "host" / "project"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("old\n")
    return fleet.packed(WorkspaceSection([HostMount(folder)], [folder.parent]))


class Lie:
    """A run as a worker might bring it: all of it plain, but for what a test changes."""

    def __init__(self, packed: PackedHome | None) -> None:
        self.facts: dict[str, Any] = {"run": "one", "pack": packed and packed.pack.hash, "machine": "w", "gone": []}
        self.facts |= {"copied": packed is not None, "left": [], "left_there": "", "session": None}
        self.run: dict[str, Any] = dict(BEGAN)
        self.events: list[Any] = [_event("started", turn=1)]
        self.more: Callable[[Packing], None] = lambda packing: None
        self.tree: list[tuple[str, bytes, Any]] = []

    def brought(self, fleet: Fleet) -> Brought:
        """Put into the store."""
        folder = fleet.top / "lie"
        folder.mkdir()
        with Packing(folder) as packing:
            packing.folder_entry(b"run", 0o700)
            packing.file(b"run/run.json", json.dumps(self.run).encode(), 0o600)
            lines = "".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in self.events)
            packing.file(b"run/events.jsonl", lines.encode(), 0o600)
            self.more(packing)
            if self.facts.get("copied"):
                packing.folder_entry(b"tree", 0o700)
            for kind, path, value in self.tree:
                add = {"f": lambda path, data: packing.file(path, data, 0o644), "l": packing.link}
                add.get(kind, packing.folder_entry)(path, value)
            parcel = packing.finish(self.facts)
        send(parcel, folder, fleet.store, "runs/one")
        return Brought("one", parcel, "runs/one")


def _refused(fleet: Fleet, lie: Lie, packed: PackedHome | None) -> None:
    with pytest.raises((ParcelError, RunError)):
        fleet.take_in(lie.brought(fleet), packed)
    runs = fleet.top / "caller" / "runs"
    assert not runs.exists() or list(runs.iterdir()) == []
    assert not (fleet.top / "caller" / "sessions").exists()


def test_a_run_as_it_should_be_is_taken_in(fleet: Fleet, packed: PackedHome) -> None:
    stored = fleet.take_in(Lie(packed).brought(fleet), packed)
    assert (stored.state, stored.so_far().code, list(stored.changes())) == ("crashed", "crashed", [])


@pytest.mark.parametrize(
    "path",
    [
        b"run/lock",
        b"run/result.json",
        b"run/.hidden",
        b"run/guests",
        b"elsewhere",
        b"run/attachments/..x/../y",
        b"session/x",
    ],
)
def test_an_entry_that_no_run_has_is_refused(fleet: Fleet, packed: PackedHome, path: bytes) -> None:
    lie = Lie(packed)

    def more(packing: Packing) -> None:
        packing.folder_entry(b"run/attachments", 0o700)
        packing.folder_entry(b"session", 0o700)
        packing.file(path, b"x", 0o600)

    lie.more = more
    _refused(fleet, lie, packed)


@pytest.mark.parametrize("path", [b"run/attachments", b"run/setup.log", b"session", b"own"])
def test_a_link_where_a_run_has_files_is_refused(fleet: Fleet, packed: PackedHome, path: bytes) -> None:
    lie = Lie(packed)
    lie.more = lambda packing: packing.link(path, b"/etc")
    _refused(fleet, lie, packed)


@pytest.mark.parametrize(
    "facts",
    [
        {"run": "two"},
        {"run": None},
        {"pack": "0" * 64},
        {"gone": "x"},
        {"gone": [1]},
        {"gone": ["../../etc/passwd"]},
        {"gone": ["/etc/passwd"]},
        {"gone": ["a\0b"]},
        {"left": [["a"]]},
        {"left": {"a": "b"}},
        {"session": "no uuid"},
    ],
)
def test_facts_that_cannot_be_are_refused(fleet: Fleet, packed: PackedHome, facts: dict[str, Any]) -> None:
    lie = Lie(packed)
    lie.facts |= facts
    _refused(fleet, lie, packed)


@pytest.mark.parametrize(
    "events",
    [
        ["no JSON\n"],
        ["[]\n"],
        ["[" * 100_000 + "\n"],
        [_event("started") | {"run": "two"}],
        [_event("invented")],
        [_event("started") | {"stream": ["lifecycle"]}],
        [_event("started") | {"t": "now"}],
        [_event("started") | {"t": float("inf")}],
        [_event("started") | {"data": []}],
        [_event("started") | {"more": 1}],
        [_event("call", "usage", id="m", model="m", input=-5, output=1, cache_read=0, cache_write=0, run="one")],
        [_event("call", "usage", id="m", model="m", input="5", output=1, cache_read=0, cache_write=0, run="one")],
        [_event("call", "usage")],
        [_event("started", turn=1), _event("finished", code="great", turn=1)],
    ],
)
def test_events_that_cannot_be_are_refused(fleet: Fleet, packed: PackedHome, events: list[Any]) -> None:
    lie = Lie(packed)
    lie.events = events
    _refused(fleet, lie, packed)


@pytest.mark.parametrize("said", [{}, {"began": "now"}, {"began": True}, {"began": 1.0, "prompt": "x" * (2 << 20)}])
def test_a_run_that_does_not_say_what_was_asked_is_refused(
    fleet: Fleet, packed: PackedHome, said: dict[str, Any]
) -> None:
    lie = Lie(packed)
    lie.run = said
    _refused(fleet, lie, packed)


def test_no_place_of_this_machine_is_taken_from_a_worker(fleet: Fleet, packed: PackedHome) -> None:
    lie = Lie(packed)
    lie.run |= {"workspace": "/etc", "copied": False, "mounts": [["/etc", "x"]], "cwd": "/etc", "pid": 1, "more": 1}
    lie.run |= {"lent": [{"host": "/etc", "inside": 5, "what": "x"}], "limits": {"usd": "many"}, "ended": 5}
    facts = fleet.take_in(lie.brought(fleet), packed).facts
    assert Path(facts["workspace"]).is_relative_to(fleet.top / "caller")
    assert facts["mounts"] == [[str(fleet.top / "host" / "project"), "project"]]
    assert (facts["lent"], facts["limits"], facts["cwd"]) == ([], {}, str(Path.cwd()))
    assert "pid" not in facts
    assert "more" not in facts


def test_a_link_out_is_shown_as_one_and_never_followed(fleet: Fleet, packed: PackedHome) -> None:
    secret = fleet.top / "secret"
    secret.write_text("the secret")
    lie = Lie(packed)
    lie.tree = [("d", b"tree/project", -1), ("l", b"tree/project/out", os.fsencode(secret)), ("l", b"tree/link", b"/")]
    stored = fleet.take_in(lie.brought(fleet), packed)
    assert {(one.path, one.type) for one in stored.changes()} == {("project/out", "link"), ("link", "link")}
    assert b"the secret" not in stored.diff()


def test_a_link_in_place_of_a_mount_lets_nothing_out(fleet: Fleet, packed: PackedHome) -> None:
    outside = fleet.top / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("of nobody")
    lie = Lie(packed)
    lie.tree = [("l", b"tree/project", os.fsencode(outside))]
    stored = fleet.take_in(lie.brought(fleet), packed)
    assert ("project", "link") in {(one.path, one.type) for one in stored.changes()}
    assert b"of nobody" not in stored.diff()
    with pytest.raises(ToolkitError):
        stored.apply()
    assert (outside / "app.py").read_text() == "of nobody"
    assert (fleet.top / "host" / "project" / "app.py").read_text() == "old\n"


def test_a_lie_about_what_is_gone_removes_nothing_but_what_was_packed(fleet: Fleet, packed: PackedHome) -> None:
    (fleet.top / "host" / "project" / "own.txt").write_text("not packed")
    lie = Lie(packed)
    lie.facts["gone"] = ["project/own.txt", "project/app.py", "elsewhere"]
    stored = fleet.take_in(lie.brought(fleet), packed)
    assert [(one.kind, one.path) for one in stored.changes()] == [("deleted", "project/app.py")]


def test_a_conversation_of_the_callers_own_is_not_changed(fleet: Fleet, packed: PackedHome) -> None:
    key = {"project_key": "toolkit", "session_id": SESSION}

    def session(word: str) -> Callable[[Packing], None]:
        def more(packing: Packing) -> None:
            packing.folder_entry(b"session", 0o700)
            text = json.dumps(key) + "\n" + json.dumps({"uuid": word, "type": "user"}) + "\n"
            packing.file(b"session/0.jsonl", text.encode(), 0o600)

        return more

    first = Lie(packed)
    first.facts["session"] = SESSION
    first.more = session("first")
    fleet.take_in(first.brought(fleet), packed)
    kept = {file: file.read_bytes() for file in (fleet.top / "caller" / "sessions").rglob("*.jsonl")}
    assert len(kept) == 1
    (fleet.top / "again").mkdir()
    other = Fleet(fleet.top / "again")
    second = Lie(packed)
    second.facts["session"] = SESSION
    second.more = session("second")
    brought = second.brought(other)
    (fleet.top / "caller" / "runs" / "one").rename(fleet.top / "caller" / "runs" / "before")
    take_in(brought, other.store, run="one", pack=packed, home=fleet.top / "caller")
    assert {file: file.read_bytes() for file in kept} == kept


@pytest.mark.parametrize("project", ["other", "toolkit"])
def test_a_transcript_of_another_conversation_is_refused(fleet: Fleet, packed: PackedHome, project: str) -> None:
    lie = Lie(packed)
    lie.facts["session"] = SESSION
    session = SESSION if project == "other" else SESSION.replace("1", "2")

    def more(packing: Packing) -> None:
        packing.folder_entry(b"session", 0o700)
        key = {"project_key": project, "session_id": session}
        packing.file(b"session/0.jsonl", json.dumps(key).encode() + b"\n", 0o600)

    lie.more = more
    _refused(fleet, lie, packed)


async def test_a_special_file_stays_behind_and_is_named(fleet: Fleet, packed: PackedHome) -> None:
    def work(top: Path) -> None:
        os.mkfifo(top / "project" / "pipe")
        (top / "project" / "suid").write_text("x")
        (top / "project" / "suid").chmod(0o4755)

    stored = await fleet.done(packed, "one", work)
    back = fleet.take_in(bring(stored, fleet.store, pack=packed.pack.hash), packed)
    left = dict(back.facts["returned"]["left"])
    assert set(left) == {"project/pipe", "project/suid"}
    assert [(one.path, (one.mode or 0) & 0o7777) for one in back.changes()] == [("project/suid", 0o755)]
    assert back.facts["returned"]["machine"] == platform.node()
