"""What a remembered decision covers: a little more than one command where that is safe, and never a program's options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolkit import run
from toolkit.runs import Decision, Question
from toolkit.runs.asking import subject_of
from toolkit.testing import FakeCLI, Turn, text, tool_use


def about(command: str) -> str:
    return subject_of("Bash", {"command": command})


@pytest.mark.parametrize(
    ("command", "family"),
    [
        ("git status", "git status"),
        ("git status --short src", "git status"),
        ("git status --porcelain=v2", "git status"),
        ("git diff HEAD~2 -- src/a.py", "git diff"),
        ("git diff --stat main..topic", "git diff"),
        ("git log --oneline -n 5", "git log"),
        ("git log -5", "git log"),
        ("git show HEAD^:a.py", "git show"),
        ("ls", "ls"),
        ("ls -la src", "ls"),
        ("cat -n a.py b.py", "cat"),
        ("head -n 20 a.py", "head"),
        ("tail -n +20 a.py", "tail"),
        ("wc -l a.py", "wc"),
        ("pwd", "pwd"),
    ],
)
def test_a_program_that_only_looks_is_remembered_with_its_subcommand(command: str, family: str) -> None:
    assert about(command) == f"Bash({family})"


EXACT = [
    # options that run things, or write
    "git -c core.fsmonitor=./evil.sh status",
    "git -ccore.fsmonitor=./evil.sh status",
    "git --exec-path=. status",
    "git --exec-path . status",
    "git -C elsewhere status",
    "git --git-dir=evil status",
    "git -p status",
    "git --config-env=core.pager=X log",
    "git diff --ext-diff",
    "git diff --textconv",
    "git diff --output=x",
    "git diff --outpu=x",
    "git log --output x",
    "git log -L:f:a.py",
    "git show --ext-diff",
    "tail --pid=1 a",
    "tail -f a",
    "ls --hyperlink",
    "wc --files0-from=x",
    # aliases and other subcommands
    "git",
    "git st",
    "git push",
    "git push origin main",
    "git commit",
    "git add a.py",
    "git submodule foreach ls",
    "git bisect run ls",
    "git rebase --exec ls",
    "git difftool",
    "git grep -O x",
    "git help status",
    "git-status",
    # programs that run what they are told
    "tar xf a.tar --checkpoint-action=exec=sh",
    "tar xf a.tar",
    "sort --compress-program=sh a",
    "sort a",
    "rsync -e sh a b",
    "rsync a b",
    "find . -exec sh",
    "find . -name x -delete",
    "find .",
    "npm run build",
    "npm test",
    "make",
    "make all",
    "busybox sh",
    "busybox ls",
    "env -S ls",
    "env ls",
    "xargs ls",
    "awk 'BEGIN{system(\"id\")}'",
    "awk -f a.awk",
    "sed e a",
    "sed -n 1e a",
    "sed 's/a/b/e' a",
    "vim -c !sh",
    "vi a",
    "less a",
    "more a",
    "man ls",
    "ssh -o ProxyCommand=sh host",
    "ssh host",
    "scp -S sh a b",
    "python a.py",
    "python3 -c 1",
    "perl -e 1",
    "node a.js",
    "bash a.sh",
    "sh -c ls",
    "nice ls",
    "timeout 5 ls",
    "time ls",
    "nohup ls",
    "sudo ls",
    "watch ls",
    "strace ls",
    "gdb -ex run",
    "docker run x",
    "curl x",
    "rg --pre sh x",
    "grep x a",
    "zip -T -TT sh a",
    "dd if=a of=b",
    "tee a",
    "cp a b",
    "rm a",
    "exec ls",
    "command ls",
    "builtin pwd",
    "eval ls",
    ". a.sh",
    "source a.sh",
    "pytest",
    # what the shell reads
    "A=b ls",
    "PATH=. ls",
    "LD_PRELOAD=./x.so cat a",
    "./ls",
    "/tmp/ls",
    "/bin/ls",
    "\\ls",
    "'ls'",
    'l"s"',
    "ls 'a b'",
    "ls $(id)",
    "ls `id`",
    "ls $HOME",
    "ls ${X}",
    "ls | sh",
    "ls; rm a",
    "ls && rm a",
    "ls || rm a",
    "ls & rm a",
    "ls &",
    "ls > a",
    "ls >> a",
    "cat < a",
    "cat <(id)",
    "cat <<E",
    "ls\nrm a",
    "ls\rrm a",
    "ls \\\n-l",
    "ls *",
    "ls ?",
    "ls [ab]",
    "ls {a,b}",
    "ls ~",
    "ls ~/x",
    "ls ~root",
    "cat a=~/x",
    "ls !x",
    "ls # x",
    "(ls)",
    "{ ls; }",
    "! ls",
    "ls  a",
    "ls\ta",
    " ls",
    "ls ",
    "",
    "ls ä",
    "ls a\0b",
]


@pytest.mark.parametrize("command", EXACT)
def test_everything_else_is_remembered_as_the_very_command(command: str) -> None:
    assert about(command) == f"Bash[{command}]"


@given(st.text())
def test_no_two_commands_of_the_exact_kind_are_taken_for_one_another(command: str) -> None:
    assert about(f"make {command}") == f"Bash[make {command}]"


SHELL = st.sampled_from([*";&|<>$`(){}[]*?~!#'\"\\\n\t ", " -c ", " --exec", "=", "git", "status", "ls", "-la", " "])


@given(st.lists(SHELL, max_size=8).map("".join))
def test_whatever_a_shell_would_read_is_never_part_of_a_family(tail: str) -> None:
    subject = about(f"git status{tail}")
    if subject == "Bash(git status)":
        assert not set(tail) & set(";&|<>$`(){}[]*?!#'\"\\\n\t")
        assert "-c" not in tail.split()


def test_a_call_that_is_unusual_in_another_way_is_not_the_same_as_the_plain_one() -> None:
    plain = subject_of("Bash", {"command": "ls", "description": "look", "timeout": 5, "run_in_background": False})
    outside = subject_of("Bash", {"command": "ls", "dangerouslyDisableSandbox": True})
    behind = subject_of("Bash", {"command": "ls", "run_in_background": True})
    assert (plain, len({plain, outside, behind})) == ("Bash(ls)", 3)
    assert subject_of("Monitor", {"command": "ls"}) == "Monitor[ls]"
    assert subject_of("Write", {"file_path": "x"}) == "Write"
    assert subject_of("mcp__notes__add", {"command": "ls"}) == "mcp__notes__add"


async def asked_for(*commands: str, **more: Any) -> list[Question]:
    """The questions of a run whose person always says: for this session."""
    asked: list[Question] = []

    def approve(question: Question) -> Decision:
        asked.append(question)
        return Decision.ALLOW_SESSION

    turns = [Turn([tool_use("Bash", command=command)]) for command in commands]
    cli = FakeCLI(*turns, text("Done."), tools={"Bash": "ran"})
    await run("Go.", mode="normal", approve=approve, transport=cli, **more)
    return asked


@pytest.mark.parametrize(
    ("commands", "questions"),
    [
        (["git status", "git status src"], 1),
        (["git status", "git -c core.fsmonitor=./evil.sh status"], 2),
        (["git status", "git log"], 2),
        (["tar xf a.tar", "tar xf a.tar --checkpoint-action=exec=sh"], 2),
        (["make", "make", "make install"], 2),
        (["npm run build", "npm run evil"], 2),
    ],
)
async def test_a_yes_for_the_session_is_asked_for_again_where_it_could_mean_more(
    commands: list[str], questions: int
) -> None:
    assert len(await asked_for(*commands)) == questions


async def test_the_question_says_what_will_be_remembered() -> None:
    status, make = await asked_for("git status", "make")
    assert (status.subject, status.remembers) == ("Bash(git status)", "every 'git status' with plain arguments")
    assert (make.subject, make.remembers) == ("Bash[make]", "exactly this command")
    assert make.as_data()["remembers"] == make.remembers
