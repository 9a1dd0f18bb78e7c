"""The configuration of a copied repository: what changes how files look to git, and nothing that runs or tells.

Written anew from a short list. Hooks, filters, helpers, includes, aliases, monitors and
credentials are not on it; of remotes there is the address without a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from toolkit._base.files import CACHES
from toolkit_workspace.git.folder import GitFolder
from toolkit_workspace.git.repository import Repository

# How files look to git, and how it prints them. Each value is a word; none names a program or a file.
_KEPT = """
core.filemode core.ignorecase core.symlinks core.precomposeunicode core.autocrlf core.eol core.safecrlf
core.sparsecheckout core.sparsecheckoutcone core.abbrev core.quotepath core.commitgraph core.multipackindex
index.sparse index.version extensions.objectformat diff.renames diff.algorithm diff.mnemonicprefix diff.noprefix
merge.conflictstyle init.defaultbranch i18n.commitencoding log.date
"""
_EXCLUDE = "info/exclude"
_LARGEST_EXCLUDE = 1 << 20
_WORD = re.compile(r"[A-Za-z0-9 ._:+/-]{0,100}")
_REMOTE = re.compile(r"remote\.(?P<name>.+)\.(?P<key>url|fetch)", re.DOTALL)
_BRANCH = re.compile(r"branch\.(?P<name>.+)\.(?P<key>remote|merge)", re.DOTALL)
_SUBMODULE = re.compile(r"submodule\.(?P<name>.+)\.(?P<key>url|active)", re.DOTALL)
_SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+:(?!/)[^\s]+")
_OWN = {
    # The copy's files have other inodes and change times than those the index knows.
    "core.checkstat": "minimal",
    "core.trustctime": "false",
    "core.untrackedcache": "false",
    "core.fsmonitor": "false",
    "core.bare": "false",
    "gc.auto": "0",
}


def clean_settings(repository: Repository) -> str:
    """The text of the copy's `config`."""
    own = {key: value for key, value in repository.config if key in _KEPT.split() and _WORD.fullmatch(value)} | _OWN
    partial = repository.setting("extensions.partialclone")
    if partial:
        own["extensions.partialclone"] = partial
    needs_extensions = any(key.startswith("extensions.") for key in own)
    own["core.repositoryformatversion"] = "1" if needs_extensions else "0"
    names = [name.partition(".") for name in sorted(own)]
    rows = [(section, key, own[f"{section}.{key}"]) for section, _, key in names]
    for name, value in repository.config:
        rows += _named(name, value)
    if partial:
        rows.append((_heading("remote", partial), "promisor", "true"))
    return _written(rows)


def ignored_everywhere(repository: Repository) -> bytes:
    """What is ignored without a `.gitignore` file: caches, and by the owner in all repositories and in this one."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    caches = "".join(f"{name}/\n" for name in sorted(CACHES))
    texts = [caches.encode(), _read(Path(repository.excludes_file or f"{config}/git/ignore"))]
    with GitFolder(repository.common_dir) as folder:
        if not folder.is_special(_EXCLUDE):
            texts.append(folder.read(_EXCLUDE, _LARGEST_EXCLUDE) or b"")
    return b"".join(text if text.endswith(b"\n") or not text else text + b"\n" for text in texts)


def _read(path: Path) -> bytes:
    """The bytes of a file of the owner; none of a FIFO, which could make us wait for ever."""
    try:
        found = path.expanduser()
        return found.read_bytes() if found.is_file() else b""
    except (OSError, RuntimeError):  # RuntimeError: a ~ that is nobody's home
        return b""


def _named(name: str, value: str) -> Iterable[tuple[str, str, str]]:
    """Remotes, branches and submodules that may be known inside."""
    if (found := _BRANCH.fullmatch(name)) and "://" not in value:
        yield _heading("branch", found["name"]), found["key"], value
    elif found := _SUBMODULE.fullmatch(name):
        yield _heading("submodule", found["name"]), "active", "true" if found["key"] == "url" else value
    elif found := _REMOTE.fullmatch(name):
        shown = value if found["key"] == "fetch" else _without_secret(value)
        if shown is not None:
            yield _heading("remote", found["name"]), found["key"], shown


def _without_secret(url: str) -> str | None:
    """A remote's address as anybody may know it; None for one that would run a program or is not understood."""
    if _SCP_LIKE.fullmatch(url) and "::" not in url:
        return url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "ssh", "git") or not host:
        return None
    user = "git@" if parts.scheme == "ssh" and parts.username == "git" else ""
    return f"{parts.scheme}://{user}{host}{f':{port}' if port else ''}{parts.path}"


def _written(rows: Iterable[tuple[str, str, str]]) -> str:
    """The rows (heading, key, value) as git reads them."""
    lines, last = [], ""
    for heading, key, value in rows:
        if heading != last:
            lines.append(f"[{heading}]\n")
            last = heading
        lines.append(f'\t{key} = "{_escaped(value)}"\n')
    return "".join(lines)


def _heading(section: str, name: str) -> str:
    return f'{section} "{_escaped(name)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
