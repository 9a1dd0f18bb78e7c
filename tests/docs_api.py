"""Write the API reference from docstrings into build/docs: `./dev docs`, or `python -m tests.docs_api [FOLDER]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "build" / "docs"
DOORS = (
    "toolkit",
    "toolkit.errors",
    "toolkit.tools",
    "toolkit.servers",
    "toolkit_servers.http",
    "toolkit.workspace",
    "toolkit.sandbox",
    "toolkit.runs",
    "toolkit.runs.views",
    "toolkit.telemetry",
    "toolkit.testing",
)
"""What users import from; what is behind these doors is not documented."""


def build(folder: Path) -> Path:
    """The reference as HTML files in a folder; gives its first page. Loads nothing from the network.

    Raises:
        subprocess.CalledProcessError: pdoc could not read a module; its stderr says which.
        RuntimeError: it could not read an annotation, and would show it as a bare text.
    """
    command = [sys.executable, "-m", "pdoc", "--docformat", "google", "--no-show-source", "--output-directory", folder]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    done = subprocess.run([*map(str, command), *DOORS], timeout=300, text=True, **quiet)
    sys.stderr.write(done.stderr)
    done.check_returncode()
    if "Error parsing type annotation" in done.stderr:
        raise RuntimeError(f"pdoc cannot read an annotation: {done.stderr}")
    return folder / "index.html"


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
