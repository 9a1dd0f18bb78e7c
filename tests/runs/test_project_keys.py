"""No option is forgotten: each is a key of the project file, or stands in a list of those left out, with the reason."""

from __future__ import annotations

import dataclasses

import click
import pytest

from toolkit.cli.starting.running import run
from toolkit.runs import Limits, RunSpec
from toolkit.runs.projects.reading.forms import forms_of
from toolkit.runs.projects.reading.keys import FORMS, LEFT_OUT, MEANT, OF_A_RUN, OF_ALL_MOUNTS
from toolkit.workspace import HostMount

HOW = "toolkit/runs/projects/reading/keys.py: add it to OF_A_RUN, or to LEFT_OUT with the reason"


def fields(made: type) -> set[str]:
    return {field.name for field in dataclasses.fields(made)}


def test_every_field_of_a_run_is_a_key_or_is_left_out_for_a_reason() -> None:
    assert fields(RunSpec) == {*OF_A_RUN} | LEFT_OUT.keys(), HOW
    assert not {*OF_A_RUN} & LEFT_OUT.keys()
    assert {*OF_A_RUN} <= FORMS.keys()
    assert all(len(why) > 20 for why in (*LEFT_OUT.values(), *MEANT.values()))


def test_every_option_of_the_command_is_a_key_or_is_answered_in_words() -> None:
    options = [param for param in run.params if isinstance(param, click.Option)]
    names = {word for option in options for word in (*option.opts, *option.secondary_opts) if word.startswith("--")}
    written = {name.removeprefix("--").replace("-", "_") for name in names}
    assert written - FORMS.keys() - LEFT_OUT.keys() - MEANT.keys() == set(), f"{HOW}, or to MEANT"
    others = MEANT.keys() - written
    assert others == set(), "these are no options any more"


def test_every_field_of_a_mount_and_every_limit_has_a_form() -> None:
    assert forms_of(HostMount, git=FORMS["git"]).keys() == fields(HostMount)
    assert forms_of(Limits).keys() == fields(Limits)
    assert {*OF_ALL_MOUNTS} <= fields(HostMount)


def test_a_field_of_a_type_without_a_form_is_noticed() -> None:
    @dataclasses.dataclass
    class New:
        shape: list[bytes]

    with pytest.raises(LookupError, match=r"New\.shape"):
        forms_of(New)
