"""`python -m toolkit` is the `toolkit` command."""

import sys

# With -m Python looks into the working directory first, and a tool file called http.py there
# would stand in for the library's. The user's folder is added in its place when it is needed.
if not sys.flags.safe_path:
    del sys.path[0]

from toolkit.cli import main

main()
