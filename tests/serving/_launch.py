"""Serve the Toolbox `box` of a file over stdio: `python -m tests.serving._launch FILE`."""

from __future__ import annotations

import runpy
import sys

from toolkit_servers.stdio import claim_stdio, serve_stdio

if __name__ == "__main__":
    wires = claim_stdio()
    serve_stdio(runpy.run_path(sys.argv[1], run_name="served")["box"], wires)
