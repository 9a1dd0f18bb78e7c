"""A setup that cannot be as asked is refused in words, before anything is copied, started or sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.setups.conftest import go, section
from toolkit import RunSpec, Setup
from toolkit.errors import ToolkitError
from toolkit.runs import InPlace, OptionError, plan_run
from toolkit.runs.layers import Layers
from toolkit.testing import ScriptedAPI

Start = Callable[..., ScriptedAPI]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"command": ""}, "it is a command, as a text"),
        ({"command": "a\0b"}, "a command holds no NUL"),
        ({"command": "x", "domains": "a.example.org"}, "it is a list"),
        ({"command": "x", "domains": ["https://a.example.org"]}, "has a scheme"),
        ({"command": "x", "domains": ["127.0.0.1"]}, "is an address, not a name"),
        ({"command": "x", "domains": ["*.com"]}, "covers names that anybody can register"),
        ({"command": "x", "keyed_by": "uv.lock"}, "it is a list"),
        ({"command": "x", "deadline": 0}, "it is a number above zero"),
        ({"command": "x", "env": {"A B": "1"}}, "cannot be the name of a variable"),
        ({"command": "x", "env": {"ANTHROPIC_API_KEY": "k"}}, "is for the model API, which a setup does not reach"),
        ({"command": "x", "env": {"https_proxy": "k"}}, "is set by the jail"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolkitError, match=says.replace("*", r"\*")):
        Setup(**arguments)


def test_a_setup_needs_mounts(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a setup needs a workspace"):
        RunSpec("Go.", setup="npm ci")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a setup needs a copy"):
        RunSpec("Go.", setup="npm ci", workspace=InPlace(tmp_path))  # type: ignore[arg-type]


async def test_a_lock_file_that_is_named_and_missing_is_an_error(shop: Path, scripted_api: Start) -> None:
    with pytest.raises(OptionError, match=r"no mount has a file uv\.lock"):
        await go(scripted_api(), shop, setup=Setup("true", keyed_by=["uv.lock"]))
    with pytest.raises(OptionError, match=r"no mount has a file \.git"):
        plan_run(RunSpec("Go.", workspace=section(shop), setup=Setup("true", keyed_by=[".git"])))
    (shop / "out.lock").symlink_to("/etc/passwd")
    with pytest.raises(OptionError, match=r"no mount has a file out\.lock"):
        plan_run(RunSpec("Go.", workspace=section(shop), setup=Setup("true", keyed_by=["out.lock"])))
    assert Layers().all() == []


def _key(shop: Path, setup: Setup, **mount: Any) -> str:
    planned = plan_run(RunSpec("Go.", workspace=section(shop, **mount), setup=setup)).setup
    assert planned is not None
    assert not planned.is_there
    return planned.key


def test_a_key_is_of_command_inputs_variables_and_mounts_and_of_nothing_else(shop: Path) -> None:
    first = _key(shop, Setup("true"))
    (shop / "shop.py").write_text("changed\n")
    same = Setup("true", domains=["a.example.org"], deadline=5)
    assert _key(shop, same) == first
    others = {
        _key(shop, Setup("false")),
        _key(shop, Setup("true", env={"A": "1"})),
        _key(shop, Setup("true", env={"A": "2"})),
        _key(shop, Setup("true"), exclude_glob="*.md"),
        _key(shop, Setup("true", keyed_by=["shop.py"])),
    }
    (shop / "requirements.txt").write_text("tiny==2.0\n")
    others.add(_key(shop, Setup("true")))
    (shop / "web").mkdir()
    (shop / "web" / "package-lock.json").write_text("{}")
    others.add(_key(shop, Setup("true")))
    assert len(others | {first}) == 8


def test_a_plan_says_which_setup_would_run_and_starts_nothing(shop: Path, toolkit_home: Path) -> None:
    plan = plan_run(RunSpec("Go.", workspace=section(shop), setup=Setup("npm ci", domains=["a.example.org"])))
    said = plan.to_json()["setup"]
    assert (said["command"], said["domains"], said["is_there"]) == ("npm ci", ["a.example.org"], False)
    assert said["inputs"] == ["shop/requirements.txt"]
    assert not toolkit_home.exists()
