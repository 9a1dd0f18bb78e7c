"""The package works as a wheel, through an sdist and editable, next to a user's own `servers/` and `workspace/`.

Every install is into a fresh environment that takes the dependencies, and only those,
from the running one: nothing is downloaded.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KINDS = ("wheel", "sdist", "editable")


def run(*command: object, cwd: Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command in a clean environment, so that only what is installed is found."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert not ok or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel made from the project."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", out, ROOT, cwd=out)
    return {"sdist": next(out.glob("*.tar.gz")), "wheel": next(out.glob("*.whl"))}


@pytest.fixture(scope="session", params=KINDS)
def installed(request: pytest.FixtureRequest, built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the package installed in one of three ways."""
    kind: str = request.param
    home = tmp_path_factory.mktemp(f"venv-{kind}")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).stdout.strip())
    link_dependencies(site)
    what = ["-e", ROOT] if kind == "editable" else [built[kind]]
    quiet = ("-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    run(python, "-m", "pip", "install", *quiet, *what, cwd=home)
    return home / "bin"


def link_dependencies(site: Path) -> None:
    """Put everything that is installed here, except the toolkit itself, into another environment."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "toolkit" not in entry.name and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with folders called like ours."""
    tools = "from toolkit import Toolbox, tool\n\n\n@tool\ndef double(number: int) -> int:\n    '''Twice the number.'''\n    return number * 2\n\n\napp = Toolbox('mine', [double])\n"
    for folder in ("servers", "workspace"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mytools.py").write_text(tools, encoding="utf-8")
    return tmp_path


def test_the_command_starts(installed: Path, tmp_path: Path) -> None:
    assert "Commands:" in run(installed / "toolkit", "--help", cwd=tmp_path).stdout


def test_every_public_name_can_be_imported(installed: Path, tmp_path: Path) -> None:
    probe = (
        "import toolkit, toolkit.workspace, toolkit.servers, toolkit_servers, toolkit_workspace\n"
        "from importlib.resources import files\n"
        "from importlib.metadata import version\n"
        "assert toolkit.__version__ == version('agent-toolkit-mcp')\n"
        "rooms = (toolkit, toolkit.workspace, toolkit.servers)\n"
        "missing = [name for room in rooms for name in room.__all__ if not hasattr(room, name)]\n"
        "untyped = [p for p in ('toolkit', 'toolkit_servers', 'toolkit_workspace') if not files(p).joinpath('py.typed').is_file()]\n"
        "print(missing, untyped, toolkit.__file__)\n"
    )
    out = run(installed / "python", "-c", probe, cwd=tmp_path).stdout
    assert out.startswith("[] [] ")
    assert (str(ROOT) in out) == (installed.parent.name.startswith("venv-editable"))


def test_a_users_own_servers_and_workspace_folders_are_theirs(installed: Path, project: Path) -> None:
    for target in ("servers.mytools:app", "workspace.mytools:app", "servers/mytools.py"):
        called = run(installed / "toolkit", "call", target, "double", "number=21", cwd=project)
        assert called.stdout == "42\n"
    served = run(installed / "toolkit", "serve", "--check", "servers.mytools:app", cwd=project)
    assert "mine" in served.stdout


@pytest.mark.parametrize("installed", ["wheel", "editable"], indirect=True)  # an sdist installs the wheel's files
def test_a_decorated_function_keeps_its_signature_for_a_type_checker(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        "from toolkit import tool\n\n\n"
        "@tool(read_only=True)\n"
        "def with_options(folder: str, limit: int = 20) -> list[str]:\n"
        "    return [folder] * limit\n\n\n"
        "@tool\n"
        "async def bare(number: int) -> float:\n"
        "    return number / 2\n\n\n"
        "class Notes:\n"
        "    @tool\n"
        "    def add(self, title: str) -> bool:\n"
        "        return bool(title)\n\n\n"
        "async def use() -> None:\n"
        "    reveal_type(with_options('src', limit=5))\n"
        "    reveal_type(await bare(3))\n"
        "    reveal_type(Notes().add('x'))\n"
        "    with_options(5)\n"
        "    Notes().add()\n",
        encoding="utf-8",
    )
    python = installed / "python"
    out = run(
        python, "-m", "mypy", "--strict", "--python-executable", python, "typed.py", cwd=tmp_path, ok=False
    ).stdout
    revealed = [line.split('"')[1].replace("builtins.", "") for line in out.splitlines() if "Revealed type" in line]
    errors = [line.split(": ")[0] for line in out.splitlines() if " error: " in line]
    assert revealed == ["list[str]", "float", "bool"], out
    assert errors == ["typed.py:24", "typed.py:25"], out


def test_the_wheel_carries_the_packages_and_nothing_else(built: dict[str, Path]) -> None:
    names = zipfile.ZipFile(built["wheel"]).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "toolkit",
        "toolkit_servers",
        "toolkit_workspace",
    }
    assert {name for name in names if name.endswith("py.typed")} == {
        f"{top}/py.typed" for top in tops if "." not in top
    }


def test_the_sdist_carries_what_a_packager_builds_and_tests_with(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "constraints.txt", "tests/test_packaging.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "dist/")) or "__pycache__" in name]


OURS = ("toolkit", "toolkit_servers", "toolkit_workspace")
A_PROJECT_OF_ITS_OWN = ROOT / "toolkit" / "demo" / "project"
LOADED_BY_PYTEST = ROOT / "toolkit" / "testing" / "pytest_plugin.py"


def imported(file: Path) -> Iterator[str]:
    """The top-level modules a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def plain_name(requirement: str) -> str:
    """The name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement)[0]).lower()


def declared() -> set[str]:
    """What users get with the package, or with one of its extras for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [names for extra, names in project["optional-dependencies"].items() if extra != "dev"]
    return {plain_name(name) for names in (project["dependencies"], *extras) for name in names}


def test_every_module_that_is_imported_is_declared() -> None:
    known, names = packages_distributions(), declared()
    missing = []
    for file in (path for room in ("toolkit", "servers", "workspace") for path in (ROOT / room).rglob("*.py")):
        if file.is_relative_to(A_PROJECT_OF_ITS_OWN):
            continue
        strangers = set(imported(file)) - sys.stdlib_module_names - set(OURS)
        if file == LOADED_BY_PYTEST:
            strangers.remove("pytest")
        missing += [
            f"{file.relative_to(ROOT)} imports {name}"
            for name in strangers
            if not names & set(map(plain_name, known.get(name, ())))
        ]
    assert missing == []


def test_every_declared_dependency_has_a_plain_pin() -> None:
    rows = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain_name(row) for row in rows if re.fullmatch(r"[\w.-]+==[\w.]+", row)}
    assert declared() - pinned == set()
