"""The toolboxes of a run: loaded, what the policy leaves of them, and what the model API may not take of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from toolkit.errors import RunError
from toolkit.runs.agents import further_tools
from toolkit.runs.asking.patterns import Offer
from toolkit.runs.asking.policy import Policy
from toolkit.runs.spec import RunSpec
from toolkit.sandbox import TOOLS

if TYPE_CHECKING:
    from toolkit.tools import Toolbox

_MOST_DOUBTS = 10


def load_boxes(spec: RunSpec) -> list[Toolbox]:
    """The toolboxes of a run; TARGETs are loaded.

    Raises:
        TargetError, ToolDefinitionError: a target that gives no tools.
        RunError: two of them have the same name.
    """
    # What was given as tools is a box or a TARGET, once the spec has checked it.
    boxes = [_load(box) if isinstance(box, str) else cast("Toolbox", box) for box in spec.tools]
    names = [*(box.name for box in boxes), *spec.servers]
    for name in names:
        if names.count(name) > 1:
            raise RunError(f"two servers are called '{name}'", fix="Give one Toolbox another name")
    return boxes


def _load(target: str) -> Toolbox:
    from toolkit_servers.target import load_target

    return load_target(target).toolbox


def check_unloaded(spec: RunSpec) -> None:
    """Refuse a TARGET that is not there, and, where no program of the user's has to run for it, a wrong pattern.

    Raises:
        TargetError: a TARGET that names no file.
        OptionError: a pattern that means no tool of the run.
    """
    from toolkit_servers.target import check_target

    targets = [one for one in spec.tools if isinstance(one, str)]
    for target in targets:
        check_target(target)
    if not targets:
        spec.check_tools()


def make_offer(spec: RunSpec, boxes: Iterable[Toolbox] = ()) -> Offer:
    """What the patterns of a run's policy can be about.

    The CLI's usual tools count in every mode, so that one policy fits all of them.
    """
    usual = (*TOOLS, *further_tools(spec))
    native = usual if spec.native is None else tuple(spec.native)
    return Offer((*native, "StructuredOutput"), {box.name: tuple(box.tools) for box in boxes}, tuple(spec.servers))


def without_disabled(boxes: Iterable[Toolbox], policy: Policy) -> list[Toolbox]:
    """The boxes with the tools that may be offered; a box of which none is left is left out."""
    kept = [(box, [name for name in box.tools if not policy.disabled(f"mcp__{box.name}__{name}")]) for box in boxes]
    return [box if len(names) == len(box.tools) else box.only(*names) for box, names in kept if names]


def doubts_about(spec: RunSpec, boxes: Iterable[Toolbox]) -> list[str]:
    """What the model API may refuse in the tools and in the output of a run, each in one line with the fix."""
    found = [warning for box in boxes for warning in box.warnings()]
    if (shape := spec.shape()) is not None:
        found += [f"output: {what}\n{fix}" for what, fix in shape.doubts()]
    told = ["; ".join(line.strip() for line in warning.splitlines()) for warning in found[:_MOST_DOUBTS]]
    return told + ([f"{len(found) - _MOST_DOUBTS} more names of that kind"] if len(found) > _MOST_DOUBTS else [])
