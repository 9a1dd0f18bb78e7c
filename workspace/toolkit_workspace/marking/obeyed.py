"""The one table of what other programs obey without being asked, with a reason for each.

Names are compared without regard to case, because some file systems do so. The table
in docs/marks.md is made from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

_AGENT = "settings of an agent"
_TOLD = "instructions to an agent"
_SHELL = "run when a shell starts"
_EDITOR = "obeyed by an editor"
_PACKAGES = "settings of a package manager, which can run programs or name another registry"
_PYTHON = "run whenever Python starts"
_HOOKS = "git hooks"
_VERSIONS = "chooses the programs that run in this folder"
_CI = "runs elsewhere: on the code host"
_BUILD = "runs elsewhere: where the project is built"


@dataclass(frozen=True, slots=True)
class Obeyed:
    """Files that a program obeys, and why that matters."""

    names: str
    """Separated by spaces: `.x/` is everything in a folder of that name, `a/b` the end of a path, `*.x` a pattern."""
    reason: str
    """The mark."""


OBEYED = (
    Obeyed(".claude/ .claude", "settings and commands of an agent"),
    Obeyed(".codex/ .agents/ .gemini/ .opencode/ .cursor/ .windsurf/ .roo/ .kiro/ .continue/ .aider.conf.yml", _AGENT),
    Obeyed(".claude.json opencode.json opencode.jsonc", _AGENT),
    Obeyed(".mcp.json", "starts programs for an agent"),
    Obeyed("toolkit.toml", "obeyed by toolkit run"),
    Obeyed("CLAUDE.md CLAUDE.local.md AGENTS.md AGENTS.override.md GEMINI.md", _TOLD),
    Obeyed(".cursorrules .clinerules .clinerules/ .windsurfrules .roorules .github/copilot-instructions.md", _TOLD),
    Obeyed(".git/ .git", "inside a git folder"),
    Obeyed(".gitconfig", "git settings, which can run programs"),
    Obeyed(".gitattributes", "changes how git reads files"),
    Obeyed(".gitmodules", "makes git fetch code"),
    Obeyed(".husky/ .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml", _HOOKS),
    Obeyed(".bashrc .bash_profile .bash_login .bash_logout .profile", _SHELL),
    Obeyed(".zshrc .zshenv .zprofile .zlogin .kshrc .inputrc", _SHELL),
    Obeyed(".envrc", "run when a shell enters the folder"),
    Obeyed(".ripgreprc", "options of a search program, which can run others"),
    Obeyed(".vscode/ .idea/ .zed/ .devcontainer/ *.code-workspace", _EDITOR),
    Obeyed(".exrc .vimrc .nvimrc .nvim.lua .dir-locals.el", _EDITOR),
    Obeyed(".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs bunfig.toml", _PACKAGES),
    Obeyed(".cargo/config.toml .cargo/config pip.conf .pypirc .condarc .bundle/config uv.toml", _PACKAGES),
    Obeyed(".tool-versions .mise.toml mise.toml .mise/ rust-toolchain rust-toolchain.toml", _VERSIONS),
    Obeyed("conftest.py", "run whenever the tests start"),
    Obeyed("sitecustomize.py usercustomize.py *.pth", _PYTHON),
    Obeyed(".github/", "obeyed by the code host"),
    Obeyed(".github/workflows/ .github/actions/", _CI),
    Obeyed(".gitlab-ci.yml .gitlab/ Jenkinsfile .circleci/ .travis.yml azure-pipelines.yml .azure-pipelines/", _CI),
    Obeyed("bitbucket-pipelines.yml .drone.yml .buildkite/ .woodpecker/ .woodpecker.yml .cirrus.yml appveyor.yml", _CI),
    Obeyed("Makefile GNUmakefile *.mk justfile Taskfile.yml setup.py Dockerfile", _BUILD),
)
"""Everything that is marked by its name alone. `package.json` and `pyproject.toml` are marked by their contents."""

_IN_GIT = {"hooks": "a git hook", "config": "git settings, which can run programs"}


def marks_for_use(path: str) -> list[str]:
    """The reasons for a file or link at this path."""
    folded = path.lower()
    parts = folded.split("/")
    marks = [row.reason for row in OBEYED if any(_names(name.lower(), folded, parts) for name in row.names.split())]
    if ".git" in parts[:-1]:
        marks += [_IN_GIT[part] for part in parts[parts.index(".git") + 1 :][:1] if part in _IN_GIT]
    return marks


def _names(name: str, path: str, parts: list[str]) -> bool:
    if name.endswith("/"):
        return f"/{name}" in f"/{path}"
    if "/" in name:
        return path == name or path.endswith("/" + name)
    return fnmatchcase(parts[-1], name) if "*" in name else parts[-1] == name
