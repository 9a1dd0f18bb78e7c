"""The CLI's own sandbox inside the jail, without the litter it leaves in a project.

The CLI runs every command in a bubblewrap of its own. That keeps commands away from the
CLI's process, and it stays. But for each file it protects that is not there it mounts an
empty one: fifteen device files in every project, an empty `.git`, a `.claude`. So a
program called `bwrap` stands first on the CLI's PATH. It leaves those mounts out and
passes everything else on as it came: a form it does not know brings the litter back,
never less confinement.

Commands also get a home of their own here. bash reads `~/.bashrc` before the CLI's
system call filter is in force, so the CLI's home must be none that a command can write.
And they get neither the socket by which others speak to the model nor the word for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from toolkit.sandbox.jail.walls import CLI_SOCKETS, CLI_TMP, HOME, MESSAGING

_SCRIPT = r"""#!/bin/bash
# Starts {real} without the mounts that only hide what is not there.
places=({places})
given=("$@") kept=() is_command=
below() {{ for place in "${{places[@]}}"; do [[ $1 == "$place"/* ]] && return 0; done; return 1; }}
is_litter() {{  # SOURCE TARGET
    below "$2" || return 1
    {own_git}
    [[ -e $2 || -L $2 ]] && case $2 in
        */.claude) rmdir "$2/.cc-writes" "$2" 2>/dev/null && return 0; return 1 ;;
        *) return 1 ;;
    esac
    [[ $1 == /dev/null || $1 == */claude-empty-* || $2 == */.claude ]]
}}
for (( i = 0; i < ${{#given[@]}}; i++ )); do
    case ${{given[i]}} in
        --) is_command=1; break ;;
        --args)
            mapfile -d '' -t -u "${{given[i + 1]}}" more || exit 1
            given=("${{given[@]:0:i}}" "${{more[@]}}" "${{given[@]:i + 2}}"); i=$((i - 1)) ;;
        --ro-bind | --bind | --symlink | --setenv | --dev-bind | --ro-bind-try | --bind-try)
            if [[ ${{given[i]}} == --ro-bind ]] && is_litter "${{given[i + 1]}}" "${{given[i + 2]}}"; then :
            else kept+=("${{given[@]:i:3}}"); fi
            i=$((i + 2)) ;;
        *) kept+=("${{given[i]}}") ;;
    esac
done
[[ -n $is_command ]] || exec {real} "$@"
kept+=(--setenv HOME {home} {unsetenv})
[[ -d {sockets} ]] && kept+=(--tmpfs {sockets} --remount-ro {sockets})
folder={tmp}; [[ -w $folder ]] || folder=/tmp  # a server of the CLI has a temp folder of its own
file=$(mktemp "$folder"/bwrap-XXXXXXXX) && printf '%s\0' "${{kept[@]}}" > "$file" && exec {{fd}}< "$file" || exit 1
rm -f "$file"
exec {real} --args "$fd" "${{given[@]:i}}"
"""


def nested_bwrap(real: str, places: Sequence[str], *, own_git: bool) -> str:
    """The text of the program.

    Args:
        real: The bubblewrap it starts.
        places: Where the workspace is, inside.
        own_git: Whether a `.git` there is the copy's own, which the agent may use as it likes.
    """
    return _SCRIPT.format(
        real=shlex.quote(real),
        places=" ".join(map(shlex.quote, places)),
        own_git="[[ $2 == */.git/* ]] && return 0" if own_git else ":",
        home=shlex.quote(HOME),
        unsetenv=" ".join(f"--unsetenv {name}" for name in MESSAGING),
        sockets=shlex.quote(CLI_SOCKETS),
        tmp=shlex.quote(CLI_TMP),
    )
