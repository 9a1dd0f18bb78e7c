"""Write real projects to disk: a Python package with a virtual environment, a Node package, each in its own repository."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")
"""What the projects' environment has, taken from ours."""

_ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "owner@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


def python_project(top: Path) -> Path:
    """A src layout with a failing test, an editable install, and pytest in `.venv`."""
    _write(
        top,
        {
            "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n',
            "src/shop/__init__.py": "def total(prices):\n    return sum(prices[1:])\n",
            "tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1, 2, 3]) == 6\n",
            ".gitignore": "__pycache__/\n.venv/\n.pytest_cache/\n",
        },
    )
    environment = top / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    libraries = next(environment.glob("lib/python*/site-packages"))
    for place in map(Path, site.getsitepackages()):
        for name in PACKAGES:
            if (place / name).is_dir():
                shutil.copytree(place / name, libraries / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (place / name).is_file():
                shutil.copy(place / name, libraries)
    (libraries / "shop-editable.pth").write_text(f"{top / 'src'}\n")
    # A script as an installer writes it: its first line names the interpreter by its path.
    script = environment / "bin" / "pytest"
    script.write_text(f"#!{environment}/bin/python\nimport sys\nfrom pytest import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return _repository(top)


def node_project(top: Path) -> Path:
    """A package whose test needs one from `node_modules`."""
    _write(
        top,
        {
            "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {"test": "node test.js"}}\n',
            "index.js": "exports.total = prices => prices.slice(1).reduce((a, b) => a + b, 0)\n",
            "test.js": "require('same')(require('./index').total([1, 2, 3]), 6)\nconsole.log('passed')\n",
            "node_modules/same/package.json": '{"name": "same", "version": "1.0.0", "main": "i.js"}\n',
            "node_modules/same/i.js": "module.exports = (a, b) => { if (a !== b) throw Error(a + ' is not ' + b) }\n",
            ".gitignore": "node_modules/\n",
        },
    )
    return _repository(top)


def _repository(top: Path) -> Path:
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


def _write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
