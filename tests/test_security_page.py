"""docs/security.md says the defaults that the code has: each row is compared with the real default, or names its test.

A control with a default that can be read is read here. One that is always on has nothing to read: its row names
tests that show it holding, and there has to be a test of that name.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from toolkit.cli.serve import serve
from toolkit.cli.starting.running import run
from toolkit.cli.ui import ui
from toolkit.runs import Limits, RunSpec, Setup
from toolkit.sandbox import CONTROL_FILES, TOOLS, JailLimits, find_api
from toolkit.telemetry import Telemetry
from toolkit.workspace import HostMount, WorkspaceSection

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
Default = Callable[[], Any]


def rows() -> dict[str, tuple[str, str]]:
    """Each control by the section it stands in and how it begins, with its cells for default and risk."""
    found: dict[str, tuple[str, str]] = {}
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0].partition(":")[0]
        for line in section.splitlines():
            cells = [cell.strip() for cell in line[1:-1].split("|")]
            if line.startswith("|") and len(cells) == 4 and cells[0] != "control" and "---" not in cells[0]:
                found[f"{title}: {cells[0]}"] = (cells[1], cells[3])
    return found


def field(name: str) -> Any:
    """The default of a field of `RunSpec`."""
    found = {one.name: one for one in dataclasses.fields(RunSpec)}[name]
    return found.default_factory() if found.default_factory is not dataclasses.MISSING else found.default


def mount(name: str) -> Any:
    return getattr(HostMount("."), name)


def option(command: click.Command, name: str) -> Any:
    """What a command takes where the option is not given."""
    return command.make_context("toolkit", ["tools.py"], resilient_parsing=True).params[name]


def jail(name: str) -> str:
    """A limit of the jail as the page writes it."""
    value = getattr(JailLimits(), name)
    if value is None:
        return "no limit"
    unit = next(((size, word) for size, word in ((1 << 30, "GiB"), (1 << 20, "MiB")) if value % size == 0), (1, ""))
    return f"{value // unit[0]} {unit[1]}".strip()


READ: dict[str, tuple[Default, str]] = {
    "The jail: Lent toolchain": (lambda: field("toolchain") is True, "on"),
    "The jail: git history": (lambda: mount("git"), 'on (`git="lend"`)'),
    "The jail: Environment": (lambda: field("env") == {}, "empty"),
    "The jail: Visible files": (lambda: (field("readable"), field("folders")) == ((), ()), "only these"),
    "The workspace: Work on a copy": (lambda: option(run, "in_place") is None, "with `--mount`"),
    "The workspace: `allowed_host_roots`": (
        lambda: inspect.signature(WorkspaceSection).parameters["allowed_host_roots"].default in ((), inspect._empty),
        "no root allows nothing in Python; the current folder on the command line",
    ),
    "The workspace: `follow_symlinks`": (lambda: mount("follow_symlinks") is False, "off"),
    "The workspace: `leave_out_secrets`": (
        lambda: mount("leave_out_secrets") is False,
        "off; a warning names the files",
    ),
    "The workspace: `protect=`": (lambda: field("protect") == (), "nothing"),
    "The workspace: Nothing is applied": (lambda: field("branch") is None, "always on"),
    "The gate: Network": (
        lambda: RunSpec("x").jail_profile == "offline" and field("domains") == (),
        "profile `offline`",
    ),
    "The gate: Host ports": (lambda: field("allow_servers") == (), "none"),
    "The gate: `api_url`": (lambda: find_api(api_key="k").url.startswith("https://"), "the Anthropic API"),
    "The gate: Setup network": (lambda: tuple(Setup("true").domains) == (), "none"),
    "Secrets: `api_headers`": (lambda: field("api_headers") == {}, "none"),
    "Secrets: Telemetry contents": (
        lambda: inspect.signature(Telemetry).parameters["contents"].default in (None, False),
        "off",
    ),
    "Profiles and settings: `profile`": (lambda: RunSpec("x").jail_profile, "`offline`"),
    "Profiles and settings: `settings=`": (lambda: field("settings") is None, "the profile's own"),
    "Profiles and settings: Control files": (
        lambda: field("allow_control_files") == () and all(name in PAGE for name in CONTROL_FILES),
        "on",
    ),
    "Profiles and settings: `native`": (
        lambda: field("native") is None and "Bash" in TOOLS and not {"WebFetch", "Monitor"} & set(TOOLS),
        "Bash and the file tools",
    ),
    "Profiles and settings: `plugins`": (
        lambda: field("plugins") == (),
        "none; one with hooks or servers is refused",
    ),
    "Approvals: `mode`": (lambda: field("mode"), "`yolo`: everything offered runs, inside the jail"),
    "Approvals: `policy`": (lambda: field("policy") == {}, "none"),
    "Approvals: Nobody to ask": (lambda: field("approve") is None, "a question is a refusal"),
    "Approvals: Your own tools": (lambda: field("tools") == (), "run on the host with your rights"),
    "Limits: `seconds`": (lambda: Limits().given() == {}, "no limit"),
    **{
        f"Limits: `{name}`": (partial(jail, name), jail(name))
        for name in ("memory_bytes", "processes", "file_bytes", "workspace_bytes", "tmp_bytes", "cpu_seconds")
    },
    "Limits: `require=": (lambda: field("require") == (), "nothing required"),
    "HTTP: Address": (lambda: option(serve, "host") in (None, "127.0.0.1"), "loopback"),
    "HTTP: TLS": (lambda: option(serve, "tls_cert") is None, "off"),
    "HTTP: Login": (lambda: option(serve, "no_auth") is False, "none on loopback; required elsewhere"),
    "The page: Address": (lambda: "host" not in [one.name for one in ui.params], "loopback only"),
}
"""What the code has (True, or a word that the cell holds), and what the page says."""

HELD: dict[str, str] = {
    "The jail: Whole CLI": "test_a_run_works_inside_and_the_key_stays_outside test_the_root_and_its_devices_cannot_be_written",
    "The jail: Check before": "test_a_jail_that_is_not_proven_is_refused_and_cleared_away",
    "The jail: System-call": "test_the_kernels_keyring_and_io_uring_are_out_of_reach",
    "The jail: Commands kept": "test_what_keeps_them_apart_cannot_be_set_otherwise",
    "The jail: Host user": "test_it_is_an_ordinary_user_without_privileges",
    "Marks: Marks": "test_characters_nobody_sees_are_marked_in_added_lines_and_names_and_escaped",
    "Marks: `.git` folders": "test_git_folders_special_files_and_what_is_outside_are_left_with_a_reason",
    "Marks: Links": "test_a_link_that_leads_out_is_refused_and_nothing_is_written",
    "The gate: Requests that make": "test_offline_the_api_is_not_asked_to_reach_out_for_the_agent",
    "The gate: Public addresses": "test_a_domain_that_resolves_to_a_private_address_is_refused",
    "Secrets: Model credentials": "test_a_credential_is_sent_as_the_cli_sends_it_and_never_enters",
    "Secrets: The gate removes": "test_a_key_that_is_repeated_in_another_spelling_does_not_come_in",
    "Secrets: Key file mode": "test_what_cannot_be_is_a_usage_error_that_names_the_option",
    "Secrets: Keys in a project": "test_every_field_of_a_run_is_a_key_or_is_left_out_for_a_reason",
    "Secrets: Messages": "test_a_cause_is_one_line_without_codes_keys_or_addresses",
    "Approvals: A guard": "test_a_hook_that_fails_or_says_something_unknown_has_refused",
    "Approvals: Remembered": "test_a_remembered_decision_is_about_what_ran_and_not_about_what_was_asked_for",
    "Approvals: A tool that a server": "test_a_tool_that_changes_in_mid_run_is_refused_when_nobody_can_approve_it",
    "The project file: A `toolkit.toml`": "test_nothing_is_obeyed_before_it_is_accepted_nor_after_it_changed",
    "The project file: A file of another": "test_a_file_of_another_user_is_refused test_a_file_that_everybody_may_write_is_refused",
    "The project file: A change": "test_nothing_is_obeyed_before_it_is_accepted_nor_after_it_changed",
    "The project file: Files that it names": "test_what_was_read_is_what_is_accepted",
    "HTTP: Tokens": "test_no_token_is_in_the_log",
    "HTTP: Token file": "test_a_token_file_that_others_have_rights_to_is_refused",
    "HTTP: `Host`": "test_a_request_for_another_host_is_refused",
    "HTTP: Limits": "test_a_body_that_turns_out_too_large_is_413 test_headers_that_drip_are_408_all_the_same",
    "HTTP: `/metrics`": "test_a_token_for_metrics_opens_nothing_else",
    "The page: Random token": "test_without_the_token_nothing_is_told",
    "The page: Actions": "test_an_action_that_the_page_did_not_send_is_refused",
    "The page: Text": "test_what_a_run_says_is_text_at_every_size_and_nothing_runs",
}
"""The tests that show a control holding which is always on."""


def test_every_row_of_the_page_is_compared_or_has_its_tests() -> None:
    known = [*READ, *HELD]
    lost = [row for row in rows() if not any(row.startswith(name) for name in known)]
    assert lost == []
    gone = [name for name in known if not any(row.startswith(name) for row in rows())]
    assert gone == []


@pytest.mark.parametrize("name", READ)
def test_the_default_on_the_page_is_that_of_the_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    default, said = READ[name]
    [cell] = {cells[0] for row, cells in rows().items() if row.startswith(name)}
    assert cell == said
    found = default()
    assert found is True or (isinstance(found, str) and found in cell), found


@pytest.mark.parametrize("name", HELD)
def test_a_control_that_is_always_on_has_a_test(name: str) -> None:
    defined = set(re.findall(r"def (test_\w+)", "".join(path.read_text("utf-8") for path in TESTS)))
    assert set(HELD[name].split()) <= defined


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def test_options_that_the_page_says_relax_something_exist() -> None:
    named = {word for _, risk in rows().values() for word in re.findall(r"`(--[a-z-]+)", risk)}
    known = {word for command in (run, serve) for one in command.params for word in (*one.opts, *one.secondary_opts)}
    assert named - known == set()
