"""The runs of a batch get their pace: each knows its project and its priority."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

from toolkit.fleets.rate.rate import Rate
from toolkit.runs import RunSpec
from toolkit.runs.batches import Task

Make = Callable[[Task], RunSpec]


def paced(make: Make, rate: Rate, priority: Callable[[Task], int] = lambda task: task.priority) -> Make:
    """What makes the specs of a batch's tasks, each with a pace of the rate."""

    def make_paced(task: Task) -> RunSpec:
        spec = make(task)
        return dataclasses.replace(spec, pace=rate.of_run(project=project_of(spec), priority=priority(task)))

    return make_paced


def project_of(spec: RunSpec) -> str:
    """The same for specs whose requests begin with the same words: then the model API has them in its cache."""
    mounts = [str(mount.host_path) for mount in getattr(spec.workspace, "mounts", ())]
    tools = [tool if isinstance(tool, str) else tool.name for tool in spec.tools]
    told: tuple[Any, ...] = (spec.model, spec.system, mounts, tools, sorted(spec.servers), spec.native)
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()[:16]
