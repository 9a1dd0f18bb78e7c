"""Programs that stand first on the CLI's PATH, so that it starts without the waits that its sandbox brings.

With its sandbox on, the CLI does three things at every start and waits for each: it runs `npm root -g` in `/`, 0.4 s
for an answer it can do without; it asks `bwrap` for its version, which a small shell knows; and it starts `socat` for
the socket of its proxy. It looks for that socket at once, a millisecond later, and then every 0.1 s; socat takes two
milliseconds to make it. So an empty file is there first, and socat puts the socket in its place. A command that found
the file would have no proxy, so this `socat` is for jails that have no domains: nothing is reached through the proxy
there anyway. Every other use of these programs is passed on as it came.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
from pathlib import Path

from toolkit.sandbox.jail.walls import CLI_TMP, PATH

QUICK_NPM = f"""#!/bin/sh
[ "$PWD $*" = "/ root -g" ] && exit 1
PATH={PATH} exec npm "$@"
"""
_QUICK_SOCAT = """#!/bin/sh
case ${{1-}} in
    UNIX-LISTEN:{tmp}/claude-*.sock,fork,reuseaddr)
        file=${{1#*:}} && : > "${{file%%,*}}" && listen=$1,unlink-early && shift && exec {real} "$listen" "$@" ;;
esac
exec {real} "$@"
"""


def quick_bwrap(real: str, then: str) -> str:
    """The text of a `bwrap` that has the version of the one that is `real`, and starts `then` for all else."""
    found = Path(real).stat()
    version = _version(real, (found.st_ino, found.st_size, found.st_mtime_ns))
    answer = f'[ "$*" != --version ] || {{ echo {shlex.quote(version)} && exit; }}\n' if version else ""
    return f'#!/bin/sh\n{answer}exec {shlex.quote(then)} "$@"\n'


@functools.lru_cache(maxsize=4)
def _version(program: str, stamp: tuple[int, ...]) -> str:
    """What the program says, nothing if it does not start; asked again when it is another."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def quick_socat(real: str, tmp: str = CLI_TMP) -> str:
    """The text of a `socat` that starts the one that is `real`; `tmp` is where the CLI wants its socket."""
    return _QUICK_SOCAT.format(real=shlex.quote(real), tmp=shlex.quote(tmp))
