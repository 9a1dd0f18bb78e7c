"""What a setup costs a run whose layer is there: finding it, and proving by its stamps that it is what was made."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Row
from toolkit import RunSpec, Setup
from toolkit.runs.layers import Layer, Layers, plan_setup
from toolkit.runs.layers.seal import seal
from toolkit.workspace import HostMount, WorkspaceSection

_TIMES = 7


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-setups-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        (project / "uv.lock").write_text("x" * 200_000)
        section = WorkspaceSection([HostMount(project)], [folder])
        spec = RunSpec("Go.", workspace=section, setup=Setup("uv sync"), home=Path(folder, "home"))
        planned = plan_setup(spec)
        assert planned is not None
        for files in (6_000, 60_000):
            layer = _made(Layers(spec.home), planned.key, files)
            found = min(_seconds(lambda: plan_setup(spec)) for _ in range(_TIMES)) * 1000
            assert plan_setup(spec) is not None
            yield Row(f"a layer of {files:,} files is found", found, None, 50.0, "ms")
            looked = min(_seconds(layer.is_as_sealed) for _ in range(3)) * 1000
            # Beside the copy and the start of the jail, which take longer: not added to a run.
            yield Row(f"its {files:,} stamps are compared, beside the start", looked, None, 1000.0, "ms")


def _seconds(work: object) -> float:
    began = time.perf_counter()
    assert callable(work)
    assert work()
    return time.perf_counter() - began


def _made(layers: Layers, key: str, files: int) -> Layer:
    """A layer of so many small files."""
    folder, lock = layers.new(key)
    (folder / "cache").mkdir()
    for number in range(files // 20):
        place = folder / "tree" / "project" / "node_modules" / f"{number % 100}" / f"{number}"
        place.mkdir(parents=True)
        for each in range(20):
            (place / f"{each}.js").write_text("x")
    sealed = seal(folder)
    facts = {"command": "uv sync", "places": ["project/node_modules"], "bytes": sealed.size, "files": sealed.files}
    facts |= {"content": sealed.content, "stamps": sealed.stamps, "made": time.time()}
    Layer(folder, facts).write(facts)
    layers.place(folder, key)
    lock.release()
    os.sync()
    return Layer.read(layers.folder / key)
