# ruff: noqa: PTH103, PTH118, PTH120, PTH123
"""Ask git which paths it ignores, many trees at a time.

Each tree is a folder below one repository with rules of its own, so one git process
judges thousands of paths. `check-ignore -v -n` names the rule for each path; a rule
that starts with "!" means the path is kept.
"""

from __future__ import annotations

import os
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CLEAN_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "LC_ALL": "C.UTF-8",
}


@dataclass
class Tree:
    """Rule files by folder, and the files and folders (with a slash at the end) around them."""

    rules: dict[str, bytes] = field(default_factory=dict)
    paths: list[bytes] = field(default_factory=list)

    def make(self, root: Path) -> None:
        top = os.fsencode(root)
        for path in self.paths:
            whole = os.path.join(top, path)
            if path.endswith(b"/"):
                os.makedirs(whole, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb"):
                pass
        for folder, data in self.rules.items():
            place = root / folder
            place.mkdir(parents=True, exist_ok=True)
            (place / ".gitignore").write_bytes(data)

    def everything(self) -> list[bytes]:
        """All paths there are in this tree once it is made, folders without a slash."""
        found = {b".gitignore"} if "" in self.rules else set()
        for path in [*self.paths, *(os.fsencode(f"{folder}/.gitignore") for folder in self.rules if folder)]:
            parts = path.rstrip(b"/").split(b"/")
            found.update(b"/".join(parts[:n]) for n in range(1, len(parts) + 1))
        return sorted(found)


def git(repository: Path, *arguments: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], input=data, capture_output=True, env=CLEAN_ENV, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def ignored_by_git(repository: Path, paths: list[bytes]) -> set[bytes]:
    """Those of the paths that git ignores, an index never looked at."""
    fields = git(repository, "check-ignore", "-z", "-v", "-n", "--no-index", "--stdin", data=b"\0".join(paths)).split(
        b"\0"
    )
    verdicts = zip(fields[2::4], fields[3::4], strict=False)
    return {path for rule, path in verdicts if rule and not rule.startswith(b"!")}


_NAMES = [
    b"a",
    b"b",
    b"ab",
    b"abc",
    b"a.b",
    b"build",
    b"keep",
    b"x.py",
    b"y.pyc",
    b"foo",
    b"foobar",
    b"bar",
    b".x",
    b"-",
    b"[a]",
]
_ODD = [b"a b", b"a ", b"\\x", b"#x", b"!x", b"\xc3\xa9", b"\xff", b"a\nb", b"*", b"a\tb", b"**", b"a^", b"]", b"a-z"]
_PIECES = [
    *_NAMES, b"*", b"*", b"**", b"***", b"?", b"*.py", b"*.py[co]", b"a*", b"*b", b"[a-c]", b"[!a]", b"[^b]x", b"[]]", b"[]-a]",
    b"[[:alpha:]]", b"[[:punct:]]*", b"[[:nope:]]", b"[a", b"[a-", b"\\*", b"\\a", b"foo**", b"**bar", b"f*o", b"[\\]]", b"[a\\-c]",
    b"[[:digit:]-z]", b"[!", b"a\\ ", b"\xc3?", b"[\x80-\xff]", b"*\\", b"[*]", b"[/]", b"a?", b"[[:space:]]", b"[[a]", b"b\\",
]  # fmt: skip


def fuzzed_pattern(rng: random.Random, paths: list[bytes]) -> bytes:
    """A pattern made of pieces, or of a real path with some of its names replaced by pieces."""
    if rng.random() < 0.5:
        parts = [rng.choice(_PIECES) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4]))]
    else:
        parts = rng.choice(paths).rstrip(b"/").split(b"/")
        parts = parts[rng.randrange(len(parts)) :] if rng.random() < 0.5 else parts
        parts = [rng.choice(_PIECES) if rng.random() < 0.3 else part for part in parts]
    pattern = b"/".join(parts)
    if rng.random() < 0.1:
        pattern += rng.choice(_PIECES)
    if rng.random() < 0.45:
        return pattern
    prefix = rng.choice([b"", b"", b"", b"/", b"/", b"!", b"!", b"!/", b"**/", b"\\!", b"\\#", b"#", b" ", b"\\"])
    suffix = rng.choice([b"", b"", b"", b"/", b"/", b"/**", b"/*", b" ", b"\\ ", b"\r", b"//", b"  ", b"\t", b"\\/"])
    return prefix + pattern + suffix


def fuzzed_tree(rng: random.Random) -> Tree:
    """A small tree with one to three rule files, nested ones among them."""
    names = [*_NAMES, *_NAMES, *_ODD]
    folders = [b""]
    for _ in range(rng.randint(1, 5)):
        folders.append(os.path.join(rng.choice(folders), rng.choice(names)))
    tree = Tree(paths=[folder + b"/" for folder in folders[1:]])
    taken = set(folders)
    for _ in range(rng.randint(3, 10)):
        path = os.path.join(rng.choice(folders), rng.choice(names))
        if path not in taken:
            taken.add(path)
            tree.paths.append(path)
    for _ in range(rng.choice([1, 1, 2, 3])):
        lines = [fuzzed_pattern(rng, tree.paths) for _ in range(rng.randint(1, 6))]
        start = rng.choice([b"", b"", b"", b"\xef\xbb\xbf", b"# rules\n", b"\n"])
        tree.rules[os.fsdecode(rng.choice(folders))] = start + b"\n".join(lines) + rng.choice([b"", b"\n", b"\r\n"])
    return tree
