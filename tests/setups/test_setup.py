"""A setup installs with network before the agent, once; what it made is the agent's to use and nobody's to change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.sandbox.jails import needs_jail
from tests.setups.conftest import NPM, NPM_ENV, PIP, go, section
from tests.setups.registry import HOST, Registry
from tests.workspace.repositories import git
from toolkit import Setup, start
from toolkit._base.processes import all_pids
from toolkit.errors import WorkspaceError
from toolkit.runs import RunResult, RunSpec, load_run, run_many
from toolkit.runs.layers import Layers
from toolkit.runs.layers.wanted import wanted_key
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
pytestmark = [needs_jail, needs(shutil.which("openssl"), "needs openssl")]
INSTALL = Setup(f"{PIP} -r requirements.txt", domains=[HOST])


def bash(*commands: str) -> list[Any]:
    return [tool_use("Bash", command=command) for command in commands]


def events(done: RunResult[Any], name: str) -> list[dict[str, Any]]:
    return [event.data for event in load_run(done.run).events() if event.name == name]


def changed(done: RunResult[Any]) -> list[str] | None:
    """The changes, but for what the project ignores."""
    return None if done.changes is None else [change.path for change in done.changes if not change.ignored]


def warnings(done: RunResult[Any]) -> str:
    return "\n".join(data["what"] for data in events(done, "lifecycle.warning"))


def running(mark: str) -> list[int]:
    """The processes whose command line has this in it."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            found += [pid] if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() else []
    return found


async def test_the_tests_of_a_project_run_from_what_pip_installed(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    api = scripted_api(bash("python -m unittest; which python tiny; git status --short"), [text("done")])
    done = await go(api, trusting, setup=INSTALL)
    assert done.code == "ok", done.debug
    said = api.tool_results()[0]
    assert "OK" in said
    assert f"{trusting}/.venv/bin/python\n{trusting}/.venv/bin/tiny\n?? cert.pem" in said
    assert registry.asked == ["/simple/tiny/", "/files/tiny-1.0-py3-none-any.whl"]
    assert done.setup is not None
    assert done.setup.made
    assert (done.setup.places, changed(done)) == (("shop/.venv",), [])
    assert not (trusting / ".venv").exists()
    assert done.total.total == done.gate_tokens  # a setup uses no tokens


async def test_a_second_run_installs_nothing_and_needs_no_network(
    trusting: Path, registry: Registry, scripted_api: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = scripted_api([text("done")], bash("python -m unittest"), [text("done")])
    first = await go(api, trusting, setup=INSTALL)
    asked = len(registry.asked)
    registry.__exit__()
    second = await go(api, trusting, setup=INSTALL)
    assert first.setup is not None
    assert second.setup is not None
    assert (second.code, second.setup.key, second.setup.made) == ("ok", first.setup.key, False)
    assert "OK" in api.tool_results()[-1]
    assert len(registry.asked) == asked
    assert events(second, "setup.started") == []
    monkeypatch.undo()


async def test_pip_builds_a_source_distribution_in_a_setup(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    api = scripted_api(bash("python -c 'import tinysource; print(tinysource.SIZE)'"), [text("done")])
    done = await go(api, trusting, setup=Setup(f"{PIP} tinysource", domains=[HOST]))
    assert done.code == "ok", done.debug
    assert api.tool_results()[0] == "7"
    assert "/files/tinysource-1.0.tar.gz" in registry.asked


@needs(shutil.which("npm"), "needs npm")
async def test_npm_ci_installs_from_a_registry(node_shop: Path, registry: Registry, scripted_api: Start) -> None:
    api = scripted_api(bash("npm test; which tiny-js; touch node_modules/mine"), [text("done")])
    done = await go(api, node_shop, setup=Setup(NPM, domains=[HOST], env=NPM_ENV))
    assert done.code == "ok", done.debug
    said = api.tool_results()[0]
    assert "passed" in said
    assert f"{node_shop}/node_modules/.bin/tiny-js" in said
    assert "Read-only file system" in said
    assert registry.asked == ["/tiny-js/-/tiny-js-1.0.0.tgz"]
    assert done.setup is not None
    assert done.setup.places == ("shop/node_modules",)


async def test_a_setup_has_neither_the_model_api_nor_the_key_nor_another_host(
    trusting: Path, registry: Registry, scripted_api: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-from-the-environment")
    tries = (
        "env; ls -A /run/toolkit /home/agent; cat /proc/1/environ | tr '\\0' '\\n'",
        "curl -s --max-time 5 https://other.example.org",
        f"curl -s --max-time 5 http://{HOST}/",
        "curl -s --unix-socket /run/toolkit/api.sock -X POST http://gate/v1/messages -d '{}'",
        "curl -s --max-time 5 http://127.0.0.1:$PORT/v1/messages",
    )
    api = scripted_api([text("done")])
    port = api.url.rpartition(":")[2]
    setup = Setup("; ".join((*tries, "true")), domains=[HOST], env={"PORT": port})
    done = await go(api, trusting, setup=setup)
    said = load_run(done.run).setup_log.read_text()
    assert done.code == "ok"
    assert "sk-" not in said
    assert "ANTHROPIC" not in said
    assert "claude" not in said
    assert [(one.what, one.rule) for one in done.refused] == [
        ("CONNECT other.example.org:443", "domain"),
        (f"GET http://{HOST}/", "method"),
        ("POST /v1/messages", "no_api"),
    ]
    assert done.refused[0].fix == "To allow it: --setup-domain other.example.org"
    assert (len(api.requests), registry.asked) == (1, [])


async def test_without_domains_there_is_no_way_out_at_all(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("done")])
    done = await go(api, shop, setup="ls /run/toolkit; env | grep -i proxy; ip -o link 2>/dev/null | grep -v lo; true")
    assert done.code == "ok"
    assert load_run(done.run).setup_log.read_text().split() == ["apart", "cache", "git", "own"]


async def test_a_failed_setup_is_told_with_its_last_lines_and_the_model_hears_nothing(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api()
    done = await go(api, shop, setup="for i in $(seq 50); do echo line $i; done; echo 'no such package' >&2; exit 7")
    assert (done.code, done.ok, api.requests) == ("setup_failed", False, ())
    assert done.cause is not None
    assert done.cause.startswith("the setup ended with exit code 7: ")
    assert done.cause.endswith("line 50; no such package")
    assert (done.cost, done.total.total, done.setup) == (0.0, 0, None)
    assert load_run(done.run).setup_log.read_text().count("line") == 50
    assert load_run(done.run).result().code == "setup_failed"
    assert list(Layers().all()) == []
    assert not [*Layers().folder.glob(".*")]


async def test_a_setup_that_hangs_is_ended_at_its_deadline(shop: Path, scripted_api: Start) -> None:
    api = scripted_api()
    done = await go(api, shop, setup=Setup("echo began; sleep 600", deadline=1.0))
    assert (done.code, api.requests) == ("setup_failed", ())
    assert done.cause == "the setup did not end within its deadline of 1.0 s: began"


async def test_what_a_setup_leaves_running_ends_with_it(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("done")])
    mark = f"toolkit-left-{os.getpid()}"
    done = await go(api, shop, setup=f"setsid bash -c 'exec -a {mark} sleep 600' & disown; sleep 0.2; echo bye")
    assert done.code == "ok"
    assert not running(mark)


async def test_the_agent_starts_from_the_owners_files_whatever_the_setup_did(shop: Path, scripted_api: Start) -> None:
    command = (
        "echo broken > shop.py; rm test_shop.py; echo new > new.txt; mkdir -p other/deep .venv; touch other/deep/f"
    )
    api = scripted_api(bash("cat shop.py; ls -A"), [text("done")])
    done = await go(api, shop, setup=command)
    said = api.tool_results()[0]
    assert "import tiny" in said
    assert "test_shop.py" in said
    assert "new.txt" not in said
    assert "other" not in said
    assert changed(done) == []
    left = "shop/new.txt (new), shop/other (new), shop/shop.py (changed), shop/test_shop.py (removed)"
    assert f"not kept of what the setup did in the mounts: {left}" in warnings(done)
    assert (shop / "shop.py").read_text().startswith("import tiny")


async def test_the_cache_is_written_by_the_setup_and_read_by_the_agent(shop: Path, scripted_api: Start) -> None:
    command = (
        "mkdir -p $TOOLKIT_CACHE/go-mod && umask 077 && echo kept > $TOOLKIT_CACHE/f && chmod 4755 $TOOLKIT_CACHE/f"
    )
    api = scripted_api(
        bash("cat $TOOLKIT_CACHE/f; stat -c %a $TOOLKIT_CACHE/f; echo $GOMODCACHE; touch $TOOLKIT_CACHE/g"),
        [text("done")],
    )
    done = await go(api, shop, setup=command)
    assert done.code == "ok"
    lines = str(api.tool_results()[0]).splitlines()
    assert lines[1:4] == ["kept", "555", "/run/toolkit/cache/go-mod"]
    assert "Read-only file system" in lines[4]


async def test_the_hosts_own_environment_gives_way_to_the_layer(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    (trusting / ".venv" / "bin").mkdir(parents=True)
    (trusting / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (trusting / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (trusting / ".venv" / "of-the-host").touch()
    api = scripted_api(bash("python -m unittest; ls -A .venv"), [text("done")])
    done = await go(api, trusting, setup=INSTALL)
    assert done.code == "ok", done.debug
    assert "OK" in api.tool_results()[0]
    assert "of-the-host" not in api.tool_results()[0]
    assert (changed(done), [*(trusting / ".venv").glob("lib")]) == ([], [])


async def test_a_setups_variables_are_its_own_and_kept_nowhere(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(bash("echo token is $TOKEN."), [text("done")])
    done = await go(
        api, shop, setup=Setup("echo $TOKEN > $TOOLKIT_CACHE/f; echo I have $TOKEN", env={"TOKEN": "very-secret-1"})
    )
    stored = load_run(done.run)
    assert api.tool_results()[0] == "token is ."
    assert stored.setup_log.read_text() == "I have [hidden]\n"
    texts = [file.read_text() for file in (*stored.folder.glob("*.json*"), *Layers().folder.glob("*/layer.json"))]
    assert len(texts) >= 4
    assert "very-secret-1" not in "".join(texts)
    assert Layers().all()[0].facts["variables"] == ["TOKEN"]


async def test_what_a_setup_prints_is_an_event_while_it_goes_on(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("done")])
    done = await go(api, shop, setup="printf '\\033[31mred\\033[0m\\r50%%\\r100%%\\nend'")
    told = [event for event in load_run(done.run).events() if event.stream == "setup"]
    assert [told[0].kind, told[-1].kind, *{event.kind for event in told[1:-1]}] == ["started", "ended", "output"]
    assert "".join(event.data["text"] for event in told[1:-1]) == "100%\nend\n"
    assert (told[0].data["inputs"], told[-1].data["ok"]) == (["shop/requirements.txt"], True)


async def test_several_runs_that_want_the_same_new_layer_make_it_once(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    api = scripted_api(*[[text("done")]] * 3)
    options: dict[str, Any] = {"setup": INSTALL, "api_url": api.url, "api_key": "k"}
    specs = [RunSpec(f"Go {number}.", workspace=section(trusting), **options) for number in range(3)]
    done = await run_many(specs, concurrency=3)
    assert [result.code for result in done] == ["ok"] * 3
    assert sorted(result.setup.made for result in done if result.setup) == [False, False, True]
    assert registry.asked == ["/simple/tiny/", "/files/tiny-1.0-py3-none-any.whl"]


async def test_a_conversation_goes_on_with_the_same_layer(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    api = scripted_api([text("done")], bash("python -m unittest; echo x > new.py"), [text("done")])
    first = await go(api, trusting, setup=INSTALL)
    second = await go(api, trusting, resume=first.session)
    assert second.code == "ok", second.debug
    assert "OK" in api.tool_results()[-1]
    assert first.setup is not None
    assert second.setup is not None
    assert second.setup.key == first.setup.key
    assert changed(second) == ["shop/new.py"]


async def test_a_layer_that_was_changed_is_made_again(trusting: Path, registry: Registry, scripted_api: Start) -> None:
    api = scripted_api([text("done")], bash("python -m unittest"), [text("done")])
    await go(api, trusting, setup=INSTALL)
    (layer,) = Layers().all()
    (module,) = layer.folder.glob("tree/shop/.venv/lib/*/site-packages/tiny.py")
    times = module.stat()
    module.chmod(0o644)
    module.write_text("SIZE = 5\n")  # as many bytes as before
    module.chmod(0o444)
    os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert layer.differing() == [str(module.relative_to(layer.folder))]
    done = await go(api, trusting, setup=INSTALL)
    assert (done.code, done.setup is not None and done.setup.made) == ("ok", True)
    assert "OK" in api.tool_results()[-1]
    assert "is made again" in warnings(done)
    assert [one.differing() for one in Layers().all()] == [[]]


async def test_a_layer_that_was_only_touched_is_used(trusting: Path, registry: Registry, scripted_api: Start) -> None:
    api = scripted_api([text("done")], [text("done")])
    await go(api, trusting, setup=INSTALL)
    (layer,) = Layers().all()
    os.utime(next(layer.folder.glob("tree/shop/.venv/pyvenv.cfg")))
    done = await go(api, trusting, setup=INSTALL)
    assert done.setup is not None
    assert not done.setup.made
    assert Layers().all()[0].facts["stamps"] != layer.facts["stamps"]


async def test_what_cannot_become_a_branch_is_said_before_anything_is_installed(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api(strict=False)
    setup = Setup("echo installing")
    git(shop, "branch", "agent/x")
    with pytest.raises(WorkspaceError, match="there is a branch agent/x already"):
        await go(api, shop, setup=setup, branch="agent/x")
    shutil.rmtree(shop / ".git")
    with pytest.raises(WorkspaceError, match="no mount lies in a git repository"):
        await go(api, shop, setup=setup, branch="agent/y")
    assert (Layers().all(), len(api.requests)) == ([], 0)


async def test_a_run_that_waits_for_the_setup_of_another_says_so(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("done")])
    setup = Setup("mkdir .venv && echo x > .venv/x")
    layers = Layers()
    key = wanted_key(RunSpec("Go.", workspace=section(shop), setup=setup), setup).name
    options: dict[str, Any] = {"api_url": api.url, "api_key": "k", "workspace": section(shop)}
    async with start("Go.", setup=setup, **options) as live:
        async with layers.making(key, pytest.fail), asyncio.timeout(60):
            async for event in live:
                if "another run makes the same layer" in str(event.data.get("what")):
                    break
        done = await asyncio.wait_for(live.result(), 60)
    assert (done.code, done.setup is not None and done.setup.made) == ("ok", True)


async def test_what_a_layers_python_stands_on_is_called_that(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("done")])
    done = await go(api, shop, setup=Setup("python3 -m venv --without-pip .venv"))
    rows = load_run(done.run).facts["lent"]
    assert "lent" not in [row["what"] for row in rows]
    assert all(row["what"] == "the Python of .venv" for row in rows if row["host"] == row["inside"])
