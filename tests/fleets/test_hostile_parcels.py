"""What came from another machine is hostile: a parcel that lies lands nowhere, and says why."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolkit.fleets.parcels import Manifest, Packing, Parcel, ParcelError, at_home, fetch, unpack_into
from toolkit.fleets.parcels.entries import BLOCK
from toolkit.fleets.store import FolderStore

DATA = b"hello"
DIGEST = hashlib.sha256(DATA).hexdigest()
PLAIN = [len(DATA), len(DATA), "raw", DIGEST]
FOLDER = ["a", "d", 0o755, 0, 0, 0]


def _said(entries: list[Any], blocks: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"format": 1, "facts": {}, "blocks": [PLAIN] if blocks is None else blocks, "entries": entries, **more}


def _parcel(said: Any) -> tuple[bytes, Parcel]:
    """A manifest whose hash is right, whatever it says."""
    data = zlib.compress(json.dumps(said).encode())
    return data, Parcel(hashlib.sha256(data).hexdigest(), len(data), 1, len(data), 5, 1)


def _read(said: Any, most_bytes: int = 1 << 20) -> Manifest:
    data, parcel = _parcel(said)
    return Manifest.from_bytes(data, parcel, most_bytes=most_bytes)


def _file(path: str, mode: int = 0o644, size: int = 5, start: int = 0) -> list[Any]:
    return [path, "f", mode, 0, size, start]


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/etc/passwd",
        "a/../../out",
        "a//b",
        "",
        ".",
        "..",
        "a/",
        "a/.",
        "a\0b",
        "x" * 256,
        "a/" * 40_000 + "b",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ParcelError):
        _read(_said([FOLDER, _file(path)]))


@pytest.mark.parametrize("kind", ["p", "s", "c", "b", "h", "x", "", None, 1, ["f"]])
def test_nothing_but_files_folders_and_links_is_taken(kind: Any) -> None:
    with pytest.raises(ParcelError):
        _read(_said([["a", kind, 0o644, 0, 5, 0]]))


@pytest.mark.parametrize(
    "entries",
    [
        [_file("a"), _file("a")],
        [_file("missing/a")],
        [_file("a"), _file("a/b")],
        [["l", "l", 0o777, 0, 0, 0, "x"], _file("l/b")],
        [_file("a", mode=0o4755)],
        [_file("a", mode=-2)],
        [_file("a", mode=True)],
        [_file("a", size=6)],
        [_file("a", size=5, start=1)],
        [_file("a", size=-1)],
        [_file("a", size=1 << 70)],
        [["a", "d", 0o755, 0, 5, 0]],
        [["l", "l", 0o777, 0, 0, 0]],
        [["l", "l", 0o777, 0, 0, 0, ""]],
        [["l", "l", 0o777, 0, 0, 0, "a\0b"]],
        [["a", "f", 0o644, 1.5, 5, 0]],
        [["a", "f"]],
        ["a"],
        [None],
        [[1, "f", 0o644, 0, 5, 0]],
    ],
)
def test_an_entry_that_cannot_be_is_refused(entries: list[Any]) -> None:
    with pytest.raises(ParcelError):
        _read(_said(entries))


@pytest.mark.parametrize(
    "said",
    [
        [],
        "x",
        {},
        {"format": 2, "facts": {}, "blocks": [], "entries": []},
        {"format": 1, "facts": [], "blocks": [], "entries": []},
        {"format": 1, "facts": {}, "blocks": 5, "entries": []},
        _said([], [[5, BLOCK + 1, "deflate", DIGEST]]),
        _said([], [[5, 0, "deflate", DIGEST]]),
        _said([], [[6, 5, "raw", DIGEST]]),
        _said([], [[5, 5, "raw", "short"]]),
        _said([], [[5, 5, "xz", DIGEST]]),
        _said([], [["5", 5, "zstd", DIGEST]]),
    ],
)
def test_a_manifest_that_is_none_is_refused(said: Any) -> None:
    with pytest.raises(ParcelError):
        _read(said)


def test_many_names_for_the_same_bytes_are_no_bomb() -> None:
    entries = [_file(f"f{number}") for number in range(1000)]
    with pytest.raises(ParcelError, match="are allowed"):
        _read(_said(entries), most_bytes=4000)
    assert len(_read(_said(entries), most_bytes=5000).entries) == 1000


def test_a_manifest_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.fleets.parcels.entries.MOST_MANIFEST", 1 << 20)
    data = zlib.compress(b"[" + b" " * (64 << 20) + b"]", 9)
    assert len(data) < 100_000
    parcel = Parcel(hashlib.sha256(data).hexdigest(), len(data), 0, len(data), 0, 0)
    with pytest.raises(ParcelError, match="more than it may"):
        Manifest.from_bytes(data, parcel, most_bytes=1 << 30)


def test_a_block_that_inflates_to_more_than_it_said_is_refused(tmp_path: Path) -> None:
    bomb = zlib.compress(b"\0" * (64 << 20), 9)
    manifest = _read(_said([_file("a")], [[len(bomb), 5, "deflate", hashlib.sha256(bomb).hexdigest()]]))
    with pytest.raises(ParcelError, match="more than it may"):
        unpack_into(tmp_path, manifest, _parts(tmp_path, bomb))


def test_a_zstd_block_of_another_size_is_refused(tmp_path: Path) -> None:
    zstd: Any = pytest.importorskip("zstandard")
    for sent in (zstd.compress(b"\0" * (64 << 20)), zstd.compress(DATA) + b"x", zstd.compress(DATA)[:-1], b"no zstd"):
        into = tmp_path / hashlib.sha256(sent).hexdigest()
        into.mkdir()
        manifest = _read(_said([_file("a")], [[len(sent), 5, "zstd", hashlib.sha256(sent).hexdigest()]]))
        with pytest.raises(ParcelError):
            unpack_into(into, manifest, _parts(into, sent))


def test_a_machine_without_zstd_says_so_and_packs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.fleets.parcels.squeezing._zstd", lambda: None)
    manifest = _read(_said([_file("a")], [[5, 5, "zstd", DIGEST]]))
    (tmp_path / "into").mkdir()
    with pytest.raises(ParcelError, match="zstandard, which is not installed"):
        unpack_into(tmp_path / "into", manifest, _parts(tmp_path, DATA))
    (tmp_path / "packed").mkdir()
    with Packing(tmp_path / "packed") as packing:
        packing.file(b"a", b"text " * 1000, 0o644)
        parcel = packing.finish({})
    read = Manifest.from_bytes((tmp_path / "packed" / "manifest").read_bytes(), parcel, most_bytes=parcel.size)
    assert [block.how for block in read.blocks] == ["deflate"]


@pytest.mark.parametrize("tail", [b"", b"x"])
def test_a_block_that_is_cut_short_or_goes_on_is_refused(tmp_path: Path, tail: bytes) -> None:
    whole = zlib.compress(DATA)
    sent = whole + tail if tail else whole[:-3]
    manifest = _read(_said([_file("a")], [[len(sent), 5, "deflate", hashlib.sha256(sent).hexdigest()]]))
    with pytest.raises(ParcelError):
        unpack_into(tmp_path, manifest, _parts(tmp_path, sent))


def _parts(top: Path, block: bytes) -> Any:
    store = FolderStore(top.parent / f"{top.name}-store")
    store.create("p/block-000000", block)
    return fetch(Parcel("", 0, 1, 0, 0, 0), store, "p")


def test_links_are_made_last_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    into = tmp_path / "into"
    into.mkdir()
    links = [["a/out", "l", 0o777, 0, 0, 0, str(outside)], ["a/up", "l", 0o777, 0, 0, 0, "../.."]]
    manifest = _read(_said([FOLDER, *links, _file("a/b")]))
    unpack_into(into, manifest, _parts(tmp_path, DATA))
    assert (into / "a" / "b").read_bytes() == DATA
    assert os.readlink(into / "a" / "out") == str(outside)  # noqa: PTH115
    assert list(outside.iterdir()) == []


def test_no_bit_beyond_the_permissions_arrives_and_the_owner_can_always_read(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    unpack_into(into, _read(_said([["a", "d", 0, 0, 0, 0], _file("a/b", mode=0)])), _parts(tmp_path, DATA))
    assert stat.S_IMODE((into / "a" / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((into / "a").stat().st_mode) == 0o700


def test_a_folder_that_something_is_in_already_is_not_written_over(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "b").write_text("mine")
    with pytest.raises(FileExistsError):
        unpack_into(into, _read(_said([_file("b")])), _parts(tmp_path, DATA))
    assert (into / "b").read_text() == "mine"


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=20,
    )
)
def test_whatever_a_manifest_says_it_is_read_or_refused(said: Any) -> None:
    for whole in (said, _said(said if isinstance(said, list) else [said]), _said([], [said])):
        try:
            manifest = _read(whole)
        except ParcelError:
            continue
        assert all(b".." not in entry.path.split(b"/") for entry in manifest.entries)


names = st.binary(min_size=1, max_size=12).filter(
    lambda raw: raw not in (b".", b"..") and not set(raw) & {0, 0x2B, 0x2F}
)


@settings(max_examples=60, deadline=None)
@given(tree=st.dictionaries(names, st.binary(max_size=200), max_size=8), link=st.binary(min_size=1, max_size=20))
def test_what_is_packed_is_what_is_unpacked(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[bytes, bytes], link: bytes
) -> None:
    top = tmp_path_factory.mktemp("parcel")
    (top / "packed").mkdir()
    (top / "into").mkdir()
    with Packing(top / "packed") as packing:
        packing.folder_entry(b"\xff folder", 0o755)
        for name, data in tree.items():
            packing.file(b"\xff folder/" + name, data, 0o640, 5_000_000_000)
            packing.stream(b"\xff folder/" + name + b"+", [data, data], 0o700, deflate=False)
        packing.link(b"link", link.replace(b"\0", b"0"))
        parcel = packing.finish({"said": [1]})
    manifest = Manifest.from_bytes((top / "packed" / "manifest").read_bytes(), parcel, most_bytes=parcel.size)
    unpack_into(top / "into", manifest, at_home(top / "packed", manifest))
    folder = os.fsencode(top / "into") + b"/\xff folder/"
    here = os.listdir(folder)  # noqa: PTH208 - no UTF-8
    assert sorted(here) == sorted([*tree, *(name + b"+" for name in tree)])
    for name, data in tree.items():
        assert _bytes(folder + name) == data
        assert _bytes(folder + name + b"+") == data * 2
        assert os.stat(folder + name).st_mtime_ns == 5_000_000_000  # noqa: PTH116
    assert manifest.facts == {"said": [1]}


def _bytes(path: bytes) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - no UTF-8
        return file.read()
