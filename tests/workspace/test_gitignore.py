# ruff: noqa: PTH118
"""`gitignore=True` leaves out exactly what git ignores; git itself is the judge."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.hostile import a_place, run_as
from tests.workspace.judge import Tree, fuzzed_tree, git, ignored_by_git
from toolkit.workspace import HostMount, WorkspaceError, WorkspaceSection

# Rules, and the paths to ask about, each in a tree of its own.
TRICKY: list[tuple[bytes, str]] = [
    (b"*\n!*/\n!*.py", "a.py b.txt d/a.py d/b.txt d/e/c.py d/e/c.txt"),
    (b"abc/**\n!abc/keep", "abc/keep abc/other abc/d/x abc/d/keep x/abc/y"),
    (b"build/\n!build/keep.txt", "build/keep.txt build/x x/build/y build2"),
    (b"build/*\n!build/keep.txt", "build/keep.txt build/x build/d/y x/build/y"),
    (b"foo**/bar", "foobar foo/bar foox/bar foox/y/bar foo/y/bar x/foo/bar"),
    (b"foo**bar", "foobar foo/bar fooxbar foo/x/bar"),
    (b"**/foo", "foo a/foo a/b/foo foo/x afoo"),
    (b"**foo", "foo a/foo afoo a/bfoo foo/x"),
    (b"a/**/b", "a/b a/x/b a/x/y/b x/a/b a/xb ab"),
    (b"a/**", "a/x a/x/y b/a/x ab/x"),
    (b"/a", "a b/a a/x"),
    (b"/a/", "a/x b/a/x"),
    (b"a/b", "a/b c/a/b a/b/c"),
    (b"a/b/", "a/b/x c/a/b/x"),
    (b"doc/*.txt", "doc/a.txt doc/s/a.txt x/doc/a.txt"),
    (b"*.o\n!keep.o", "a.o keep.o d/a.o d/keep.o"),
    (b"!a\na", "a b/a"),
    (b"a\n!a\na\n!a", "a d/a"),
    (b"\\#x\n#y", "#x #y"),
    (b"\\!x\n!y", "!x x y"),
    (b"a \nb\\ \nc\\  ", "a b c 'a_' 'b_' 'c_' 'c__'"),
    (b" a", "a '_a'"),
    (b"a\t", "a 'a%'"),
    (b"a\r\nb\r", "a b"),
    (b"\xef\xbb\xbfbom\nx", "bom x"),
    (b"x\n\xef\xbb\xbfbom", "bom x"),
    (b"[abc].t", "a.t b.t d.t [abc].t"),
    (b"[!abc].t\n[^x].u", "a.t d.t x.u y.u"),
    (b"[a-c]x\n[c-a]y", "ax cx dx ay by cy"),
    (b"[]]\n[]-a]z\n[a-]w", "] ]z -z az ^z aw -w"),
    (b"[[:digit:]]x\n[[:alpha:]][[:punct:]]", "1x ax a. a1 1."),
    (b"[[:space:]]x\n[[:nope:]]y\n[[:alpha]z", "'_x' ay :y :z az lz"),
    (b"[[a]q\n[a[b]r", "[q aq ar [r br"),
    (b"[a", "[a a"),
    (b"[a-\nok", "[a- ok a"),
    (b"a\\", "a a\\"),
    (b"\\a\\b\\*", "ab* ab abx"),
    (b"a[\\]]b\na[\\-c]d", "a]b a\\b a-d acd abd"),
    (b"?x\n??y", "ax x aby ay é.x"),
    (b"*", "a d/b .c"),
    (b"*\n!.gitignore\n!d", "a d/b d/.gitignore"),
    (b"**", "a d/b"),
    (b"/**", "a d/b"),
    (b"**/", "a d/b d/e/f"),
    (b"*/", "a d/b d/e/f"),
    (b"/*/", "a d/b d/e/f"),
    (b"/*\n!/src\n/src/*\n!/src/lib", "a src/x src/lib/y src/lib/z/w d/src/x"),
    (b"***/x\na/***/b\nc***", "x d/x a/b a/q/b cx c/x"),
    (b"a//\nb//c", "a/x b/c"),
    (b"/\n//\n!\n!/", "a d/b"),
    (b"a/./b\n./c", "a/b c"),
    (b"a/../b\n../c", "b c a/x"),
    (b".*\n!.keep", ".a .keep d/.b d/.keep"),
    (b"*.*", "a a.b .c d.d/x"),
    (b"a*b*c", "abc axbxc axb abxcx a/bc"),
    (b"a\\/b\nc\\/", "a/b c/x"),
    (b"**\\/x\na/**\\/y", "x d/x a/y a/q/y a/q/r/y"),
    (b"d/\n!d/", "d/x d/e/y"),
    (b"d\n!d/", "d/x e/d"),
    (b"d/\n!d", "d/x e/d"),
    (b"node_modules/\n!node_modules/mine/", "node_modules/a/x node_modules/mine/y s/node_modules/z"),
    (b"a/*/c", "a/b/c a/c a/b/d/c x/a/b/c"),
    (b"*/foo", "foo a/foo a/b/foo"),
    (b"foo/*\n!foo/bar/\n", "foo/x foo/bar/y foo/baz/z"),
    (b"\x80*\n\xc3?", "é ê a"),
    (b"a\x00b\nc", "a ab c"),
    (b"# only a comment\n\n   \n", "a '#_only_a_comment'"),
    (b"[/]x\na[/]b\na[!x]b", "a/b axb ayb /x"),
    (b"b/[!a]", "b/a b/b b/c/d"),
    (b"*.py[co]", "a.pyc a.pyo a.py a.pyd d/b.pyc"),
]  # fmt: skip


def _paths(text: str) -> list[bytes]:
    """Quoted words may hold spaces (written _) and tabs (written %)."""
    words = []
    for word in text.split():
        bare = word[1:-1].replace("_", " ").replace("%", "\t") if word.startswith("'") else word
        words.append(bare.lstrip("/").encode())
    return words


def _disagreements(repository: Path, trees: list[Tree]) -> tuple[int, list[str]]:
    """How many paths were judged, and those git and a prepared workspace treat differently."""
    for number, tree in enumerate(trees):
        tree.make(repository / str(number))
    asked = [b"%d/" % number + path for number, tree in enumerate(trees) for path in tree.everything()]
    kept_by_git = set(asked) - ignored_by_git(repository, asked)
    mounts = [HostMount(repository / str(number), gitignore=True) for number in range(len(trees))]
    with WorkspaceSection(mounts, [repository], parent=repository.parent) as section:
        kept_by_us = set(_everything_below(section.temp_dir)) - {b"%d" % number for number in range(len(trees))}
    wrong = [f"{'only we' if path in kept_by_us else 'only git'} keep {path!r}" for path in kept_by_us ^ kept_by_git]
    return len(asked), sorted(
        f"{text}: {trees[int(text.partition(chr(39))[2].partition('/')[0])].rules}" for text in wrong
    )


def _everything_below(top: Path) -> list[bytes]:
    found = []
    for folder, folders, files in os.walk(os.fsencode(top)):
        found += [os.path.relpath(os.path.join(folder, name), os.fsencode(top)) for name in [*folders, *files]]
    return found


@pytest.fixture
def repository() -> Iterator[Path]:
    """An empty repository, in memory where there is such a place: thousands of tiny files are made there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as top:
        place = Path(top) / "repository"
        place.mkdir()
        git(place, "init", "-q")
        yield place


def test_a_table_of_tricky_rules_is_read_as_git_reads_it(repository: Path) -> None:
    trees = [Tree({"": rules}, [path]) for rules, text in TRICKY for path in _paths(text)]
    _, wrong = _disagreements(repository, trees)
    assert wrong == []
    assert len(trees) >= 200


def test_three_thousand_fuzzed_trees_are_ignored_as_git_ignores_them(repository: Path) -> None:
    rng = random.Random(20_240_611)
    judged, wrong = _disagreements(repository, [fuzzed_tree(rng) for _ in range(3_000)])
    assert wrong == []
    assert judged > 25_000


@pytest.mark.parametrize("seed", range(12))
def test_info_exclude_counts_after_every_gitignore_file(repository: Path, seed: int) -> None:
    rng = random.Random(seed)
    tree = fuzzed_tree(rng)
    tree.make(repository)
    lines = [b"*.py", b"!x.py", b"a/", b"build", b"foo*", rng.choice([b"*", b"!a", b"[ab]*"])]
    rng.shuffle(lines)
    (repository / ".git" / "info" / "exclude").write_bytes(b"\n".join(lines))
    asked = tree.everything()
    with WorkspaceSection([HostMount(repository, gitignore=True)], [repository], parent=repository.parent) as section:
        copied = {path for path in _everything_below(section.temp_dir / "repository") if not path.startswith(b".git/")}
    assert copied - {b".git"} == set(asked) - ignored_by_git(repository, asked)


def test_without_gitignore_the_rule_files_are_only_files(tmp_path: Path) -> None:
    Tree({"": b"*\n"}, [b"a", b"d/b"]).make(tmp_path / "t")
    with WorkspaceSection([HostMount(tmp_path / "t")], [tmp_path]) as section:
        assert sorted(_everything_below(section.temp_dir / "t")) == [b".gitignore", b"a", b"d", b"d/b"]


def test_the_fingerprint_counts_what_rule_files_would_ignore(tmp_path: Path) -> None:
    Tree({"": b"*.log\n"}, [b"a", b"b.log"]).make(tmp_path / "t")
    with WorkspaceSection([HostMount(tmp_path / "t")], [tmp_path]) as section:
        before = section.fingerprint()
        (section.temp_dir / "t" / "b.log").write_bytes(b"changed")
        assert section.fingerprint() != before


@pytest.mark.parametrize("kind", ["folder", "FIFO"])
def test_what_is_no_file_holds_no_rules_and_is_never_read(repository: Path, kind: str) -> None:
    """With a writer at its other end, a FIFO has bytes to give that would be rules."""
    (repository / "a").write_bytes(b"a")
    exclude = repository / ".git" / "info" / "exclude"
    exclude.unlink(missing_ok=True)
    writer = -1
    if kind == "folder":
        exclude.mkdir()
    else:
        os.mkfifo(exclude)
        writer = os.open(exclude, os.O_RDWR | os.O_NONBLOCK)
        os.write(writer, b"a\n")
    try:
        with WorkspaceSection([HostMount(repository, gitignore=True)], [repository]) as section:
            assert (section.temp_dir / "repository" / "a").is_file()
        assert writer < 0 or os.read(writer, 10) == b"a\n"
    finally:
        if writer >= 0:
            os.close(writer)


def test_the_git_folder_comes_along_whatever_the_ignore_rules_say(repository: Path) -> None:
    (repository / ".gitignore").write_bytes(b"*\n!*.py\n")
    with WorkspaceSection([HostMount(repository, gitignore=True)], [repository]) as section:
        assert (section.temp_dir / "repository" / ".git" / "HEAD").is_file()
    with WorkspaceSection([HostMount(repository, gitignore=True, exclude_glob=".git/")], [repository]) as section:
        assert not (section.temp_dir / "repository" / ".git").exists()


def test_rules_too_large_to_be_read_refuse_the_copy(tmp_path: Path) -> None:
    Tree({"": b"x\n" * 600_000}, [b"a"]).make(tmp_path / "t")
    with pytest.raises(WorkspaceError):
        WorkspaceSection([HostMount(tmp_path / "t", gitignore=True)], [tmp_path], parent=tmp_path).prepare()
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_rules_that_may_not_be_read_refuse_the_copy() -> None:
    def copy() -> None:
        Tree({}, [b"a", b".git/info/exclude"]).make(place.project)
        (place.project / ".git/info/exclude").chmod(0)
        mount = HostMount(place.project, gitignore=True, git="none")
        with pytest.raises(WorkspaceError, match="info/exclude"):
            WorkspaceSection([mount], [place.top], parent=place.top).prepare()
        assert [entry.name for entry in place.top.iterdir()] == ["project"]

    with a_place(plain=True) as place:
        run_as(True, copy)


def test_rules_that_fill_the_automaton_are_asked_one_by_one(tmp_path: Path) -> None:
    lines = [b"*a%d*b*c%d*[x-z]q*d*" % (n, n) for n in range(4_000)] + [b"*.secret"]
    Tree({"": b"\n".join(lines)}, [b"k.secret", b"a" * 200, b"a1b2c1xqd"]).make(tmp_path / "t")
    with WorkspaceSection([HostMount(tmp_path / "t", gitignore=True)], [tmp_path]) as section:
        assert sorted(_everything_below(section.temp_dir / "t")) == [b".gitignore", b"a" * 200]
