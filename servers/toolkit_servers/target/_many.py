"""Several targets become one: what has the same name gets the name of its target in front, and nothing else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import TargetError
from toolkit.tools import Toolbox
from toolkit_servers.target._load import Target, load_target, load_together

_LONGEST_NAME = 64
_NAME = "tools"


def load_targets(specs: Sequence[str], *, name: str | None = None, cwd: Path | None = None) -> Target:
    """One target with the tools of all of these, in the order they are named.

    Raises:
        TargetError: one of them cannot be loaded, or names clash even with their targets' names in front.
    """
    if len(specs) == 1 and name is None:
        return load_target(specs[0], cwd=cwd)
    parts = load_together(specs, cwd=cwd)
    return Target(
        spec=" ".join(specs),
        toolbox=_joined(parts, name),
        files=frozenset[Path]().union(*(part.files for part in parts)),
        file=parts[0].file,
        folder=parts[0].folder,
        parts=parts,
    )


def load_again(target: Target) -> Target:
    """The same target, from its files as they are now."""
    if not target.parts:
        return load_target(target.spec)
    return load_targets([part.spec for part in target.parts], name=target.toolbox.name)


def _joined(parts: Sequence[Target], name: str | None) -> Toolbox:
    # Addresses that some URI fits both are refused by the box itself.
    boxes = [part.toolbox for part in parts]
    offered = [(box, each) for box in boxes for each in (*box, *box.prompts.values(), *box.resources.values())]
    uses = Counter((each.kind, each.name) for _, each in offered)
    renamed = [_named_apart(each, box) if uses[each.kind, each.name] > 1 else each for box, each in offered]
    _refuse_clashes(parts, renamed)
    said = [f"{box.name}: {box.instructions}" for box in boxes if box.instructions]
    return Toolbox(name or _name_of(boxes), renamed, instructions="\n\n".join(said) or None)


def _named_apart(each: Any, box: Toolbox) -> Any:
    """With its box's name in front; the address of a resource stays what it is."""
    return each.renamed(f"{box.name}_{each.name}"[:_LONGEST_NAME])


def _refuse_clashes(parts: Sequence[Target], offered: Sequence[Any]) -> None:
    seen: dict[tuple[str, str], Any] = {}
    for each in offered:
        key = each.kind, each.name
        if key in seen:
            raise TargetError(
                f"two {each.kind}s would be called '{key[1]}'",
                target=" ".join(part.spec for part in parts),
                where=[seen[key].source_line, each.source_line],
                fix="Give one of the toolboxes another name: Toolbox('…', [...])",
            )
        seen[key] = each


def _name_of(boxes: Sequence[Toolbox]) -> str:
    """The names of the boxes, as far as a server's name may be long."""
    joined = "-".join(dict.fromkeys(box.name for box in boxes))
    return joined if len(joined) <= 48 else _NAME
