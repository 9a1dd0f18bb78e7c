"""Kill a launcher while it makes its run's branch, and tell what is left: `python -m tests.delivery.killed_at_the_branch HOME SHOP`.

One process for all the kills: each launcher is a fork, so that the imports are made once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from toolkit.runs import load_run, run
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

USAGE = {"input_tokens": 7, "output_tokens": 3}


def count_starts(kill_at: int | None, told: int) -> None:
    """Count the programs that the delivery starts, and end this process in front of one of them."""
    begin, deliver, seen = subprocess.Popen.__init__, WorkspaceSection.deliver, [0]

    def counted(self: Any, *args: Any, **options: Any) -> None:
        seen[0] += 1
        if seen[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        begin(self, *args, **options)

    def delivered(self: Any, *args: Any, **options: Any) -> Any:
        subprocess.Popen.__init__ = counted  # type: ignore[method-assign]
        made = deliver(self, *args, **options)
        os.write(told, str(seen[0]).encode())
        if kill_at == 0:  # it is made, and nobody has written that down
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    WorkspaceSection.deliver = delivered  # type: ignore[method-assign]


async def launch(home: Path, project: Path, name: str) -> None:
    """A run that changes a file and is to leave a branch."""
    section = WorkspaceSection([HostMount(project)], [project.parent]).prepare(parent=home)

    def write(arguments: dict[str, Any]) -> str:
        (section.temp_dir / project.name / "new.py").write_text("x = 1\n", encoding="utf-8")
        return "ok"

    section.release()
    cli = FakeCLI(Turn([tool_use("Bash", command="x")], usage=USAGE), Turn([text("Done.")]), tools={"Bash": write})
    await run("Go.", workspace=section, home=home, transport=cli, branch=f"agent/{name}", run_id=name)


def kill_at(home: Path, project: Path, point: int | None) -> dict[str, Any]:
    """What is left of a launcher that was killed before the so-manieth program; None lets it live."""
    reading, writing = os.pipe()
    name = f"killed-{point}"
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            count_starts(point, writing)
            asyncio.run(launch(home, project, name))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        starts = int(pipe.read() or b"0")
    _, status = os.waitpid(child, 0)
    stored = load_run(name, home)
    result = stored.result()
    return {
        "name": name,
        "was_killed": os.waitstatus_to_exitcode(status) == -signal.SIGKILL,
        "starts": starts,
        "state": stored.state,
        "delivery": result.delivery,
        "input": result.total.input,
        "calls": len(result.calls),
        "text": result.text,
    }


def main(home: str, project: str) -> None:
    """Once to the end, then killed at the first, some in the middle, and each of the last ones."""
    told = [kill_at(Path(home), Path(project), None)]
    last = told[0]["starts"]
    for point in sorted({1, last // 3, last * 2 // 3, *range(max(1, last - 2), last + 1)}):
        told.append(kill_at(Path(home), Path(project), point))
    told.append(kill_at(Path(home), Path(project), 0))
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
