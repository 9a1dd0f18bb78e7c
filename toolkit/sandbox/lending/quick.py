"""Programs that stand first on the CLI's PATH, so that it starts without the waits that its sandbox brings.

With its sandbox on, the CLI does two things at every start and waits for both: it runs `npm root -g` in `/`, 0.4 s for
an answer it can do without, and it starts `socat` for the socket of its proxy. It looks for that socket at once, a
millisecond later, and then every 0.1 s; socat takes two milliseconds to make it. So an empty file is there first, and
socat puts the socket in its place. A command that found the file would have no proxy, so this `socat` is for jails that
have no domains: nothing is reached through the proxy there anyway. Every other use of both programs is passed on as it
came.
"""

from __future__ import annotations

import shlex

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


def quick_socat(real: str, tmp: str = CLI_TMP) -> str:
    """The text of a `socat` that starts the one that is `real`; `tmp` is where the CLI wants its socket."""
    return _QUICK_SOCAT.format(real=shlex.quote(real), tmp=shlex.quote(tmp))
