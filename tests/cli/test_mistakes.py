"""Each mistake people make is answered with what is wrong, where, and what to do. These are the texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli._command import toolkit

HEAD = "from toolkit import Toolbox, tool\n\n\n"
FIND = "@tool\ndef find(text: str, limit: int = 20) -> str:\n    return text * limit\n"


@dataclass(frozen=True)
class Mistake:
    """Files, a command, and what it must say on stderr."""

    command: str
    says: str
    files: dict[str, str] = field(default_factory=dict)
    code: int = 1


MISTAKES = {
    "file missing": Mistake(
        "inspect note.py",
        """\
there is no file note.py
  looked in <here>
  Did you mean notes.py?
""",
        {"notes.py": HEAD + FIND},
        code=2,
    ),
    "a file that is no Python file missing": Mistake(
        "inspect note.txt",
        """\
there is no file note.txt, and no module of that name
  looked in <here>
  Did you mean notes.py?
""",
        {"notes.py": HEAD + FIND},
        code=2,
    ),
    "no Python file": Mistake(
        "inspect t.txt",
        """\
t.txt is no Python file: its name does not end in .py
  Name a Python file: tools.py
""",
        {"t.txt": "words"},
        code=2,
    ),
    "folder missing": Mistake(
        "inspect tools/notes.py",
        """\
there is no file tools/notes.py
  the folder tools does not exist
  Check the path; it is read from the current directory
""",
        code=2,
    ),
    "a folder": Mistake(
        "inspect tools",
        """\
tools is a folder
  Name a file in it: tools/notes.py
""",
        {"tools/notes.py": HEAD + FIND},
        code=2,
    ),
    "module missing": Mistake(
        "inspect my_app.note:box",
        """\
there is no module 'my_app.note'
  looked in <here> and in what is installed for <python>
  Did you mean my_app.notes:box?
""",
        {"my_app/__init__.py": "", "my_app/notes.py": HEAD + FIND},
        code=2,
    ),
    "neither a file nor a module": Mistake(
        "inspect my-tools:",
        """\
'my-tools:' is not a TARGET
  Write a file (tools.py), a file and a name (tools.py:box) or a module (my_app.tools:box)
""",
        code=2,
    ),
    "wrong object name": Mistake(
        "inspect notes.py:boxx",
        """\
notes.py has no 'boxx'
  notes.py  has: find, box
  Did you mean notes.py:box?
""",
        {"notes.py": HEAD + FIND + "\n\nbox = Toolbox('notes', [find])\n"},
        code=2,
    ),
    "no tools found": Mistake(
        "inspect notes.py",
        """\
no tools in notes.py
  notes.py:1  def find(text: str) -> str
  Put @tool above it (from toolkit import tool)
""",
        {"notes.py": "def find(text: str) -> str:\n    return text\n"},
    ),
    "a name in __all__ that is not there": Mistake(
        "inspect notes.py",
        """\
notes.py lists 'finds' in __all__, but has no such name
  notes.py:9  __all__ = ['finds']
  Did you mean find?
""",
        {"notes.py": HEAD + FIND + "\n\n__all__ = ['finds']\n"},
    ),
    "several toolboxes": Mistake(
        "inspect notes.py",
        """\
2 toolboxes in notes.py, and no name to choose by
  notes.py:one
  notes.py:two
  Say which one: notes.py:one
""",
        {"notes.py": HEAD + FIND + "\n\none = Toolbox('one', [find])\ntwo = Toolbox('two', [find])\n"},
    ),
    "duplicate tool name in a toolbox": Mistake(
        "inspect notes.py",
        """\
two tools are called 'find'
  notes.py:5  def find(text: str, limit: int = 20) -> str
  notes.py:10  def search(text: str) -> str
  Give one another name: @tool(name="find_2")
""",
        {"notes.py": HEAD + FIND + '\n\n@tool(name="find")\ndef search(text: str) -> str:\n    return text\n'},
    ),
    "duplicate function name": Mistake(
        "inspect notes.py",
        """\
two tools are called 'find': the second replaces the first
  notes.py:5  def find(text: str, limit: int = 20) -> str:
  notes.py:10  def find(pattern: str) -> str:
  Give one of the functions another name
""",
        {"notes.py": HEAD + FIND + "\n\n@tool\ndef find(pattern: str) -> str:\n    return pattern\n"},
    ),
    "untyped parameter": Mistake(
        "inspect notes.py",
        """\
tool 'find': parameter 'folder' has no type
  notes.py:5  def find(folder, limit: int = 20) -> str
  Write its type, for example: folder: Path
""",
        {"notes.py": HEAD + "@tool\ndef find(folder, limit: int = 20) -> str:\n    return folder\n"},
    ),
    "raises at import": Mistake(
        "inspect notes.py",
        """\
notes.py could not be imported: ValueError: invalid literal for int() with base 10: 'many'
  notes.py:4  LIMIT = int('many')
  Correct that line, or move it into the tool that needs it
""",
        {"notes.py": HEAD + "LIMIT = int('many')\n" + FIND},
    ),
    "ends the program at import": Mistake(
        "inspect notes.py",
        """\
notes.py ended the program while it was imported: sys.exit(3)
  notes.py:2  sys.exit(3)
  Move that call under: if __name__ == "__main__":
""",
        {"notes.py": "import sys\nsys.exit(3)\n"},
    ),
    "imports what is not installed": Mistake(
        "inspect notes.py",
        """\
notes.py imports 'no_such_library', which is not installed
  notes.py:1  import no_such_library.web
  Install it where toolkit runs: <python> -m pip install no_such_library
""",
        {"notes.py": "import no_such_library.web\n"},
    ),
    "imports a neighbour by a wrong name": Mistake(
        "inspect notes.py",
        """\
notes.py imports 'helpers', which is not installed
  notes.py:1  import helpers
  Did you mean helper?
""",
        {"notes.py": "import helpers\n", "helper.py": ""},
    ),
    "syntax error": Mistake(
        "inspect notes.py",
        """\
notes.py is not valid Python: expected ':'
  notes.py:5  def find(text: str) -> str
  Correct that line
""",
        {"notes.py": HEAD + "@tool\ndef find(text: str) -> str\n    return text\n"},
    ),
    "syntax error in an imported file": Mistake(
        "inspect notes.py",
        """\
helper.py is not valid Python: invalid syntax
  helper.py:1  x = = 1
  Correct that line
""",
        {"notes.py": "import helper\n", "helper.py": "x = = 1\n"},
    ),
    "raises when called": Mistake(
        "call notes.py find text=x",
        """\
find failed: LookupError: there is no index yet
  notes.py:6  raise LookupError('there is no index yet')
  Correct that line, or raise ToolError("…") to tell the model what to do instead
""",
        {"notes.py": HEAD + "@tool\ndef find(text: str) -> str:\n    raise LookupError('there is no index yet')\n"},
    ),
    "wrong argument on call": Mistake(
        "call notes.py find txt=x limit=many",
        """\
find was not called: 3 arguments are wrong
  - txt: no such argument; did you mean 'text'?
  - limit: should be a valid integer, unable to parse string as an integer; got "many"
  - text: missing
  notes.py:5  def find(text: str, limit: int = 20) -> str
  Usage: toolkit call notes.py find text=STRING [limit=INTEGER]
""",
        {"notes.py": HEAD + FIND},
        code=2,
    ),
    "wrong tool on call": Mistake(
        "call notes.py fnid text=x",
        """\
notes.py has no tool 'fnid'
  notes.py:5  def find(text: str, limit: int = 20) -> str
  Did you mean find?
""",
        {"notes.py": HEAD + FIND},
        code=2,
    ),
    "no key=value on call": Mistake(
        "call notes.py find hello",
        """\
Usage: toolkit call [OPTIONS] TARGET TOOL [KEY=VALUE]...
Try 'toolkit call --help' for help.

Error: 'hello' is not key=value (or key:=json)
""",
        {"notes.py": HEAD + FIND},
        code=2,
    ),
    "a function that is not a tool": Mistake(
        "inspect notes.py:find",
        """\
'find' is a function, but not a tool
  notes.py:1  def find(text: str) -> str
  Put @tool above it (from toolkit import tool)
""",
        {"notes.py": "def find(text: str) -> str:\n    return text\n"},
    ),
    "an object that is not a tool": Mistake(
        "inspect notes.py:app",
        """\
'app' is of type dict, not a Toolbox or a tool
  notes.py:9  app = {'name': 'notes'}
  Name a Toolbox, a decorated function or a list of them, or leave ':app' off to take every tool
""",
        {"notes.py": HEAD + FIND + "\n\napp = {'name': 'notes'}\n"},
    ),
    "a limit of the wrong kind": Mistake(
        "serve notes.py --check",
        """\
tool 'find': parameter 'limit' has a type that cannot be used: Error building "int" validator: ValueError: 'gt' must \
be coercible to an integer
  notes.py:7  def find(limit: Annotated[int, Field(gt=0.5)]) -> str
  Correct what stands beside the type: limits of the type's own kind, lengths from 0 on, a pattern that compiles, and \
in a schema of your own only what JSON has
""",
        {
            "notes.py": "from typing import Annotated\nfrom pydantic import Field\nfrom toolkit import tool\n\n\n@tool\n"
            'def find(limit: Annotated[int, Field(gt=0.5)]) -> str:\n    """Find."""\n    return ""\n'
        },
    ),
    "an output schema of no draft": Mistake(
        "run Go. --output-schema schema.json",
        """\
Usage: toolkit run [OPTIONS] [PROMPT]
Try 'toolkit run --help' for help.

Error: --output-schema schema.json: it is no JSON Schema: $schema: 5 names no draft; leave it out, or give the address \
of one
""",
        {"schema.json": '{"$schema": 5, "type": "object"}'},
        code=2,
    ),
    "a module of the standard library": Mistake(
        "inspect calendar",
        """\
no tools in the module 'calendar'
  <stdlib>/calendar.py  was imported: that name is taken
  To load the file in this folder, write: calendar.py
""",
        {"calendar.py": HEAD + FIND},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_what_where_and_what_to_do(name: str, tmp_path: Path) -> None:
    mistake = MISTAKES[name]
    for file, text in mistake.files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")

    done = toolkit(*mistake.command.split(" "), cwd=tmp_path)

    assert done.err == mistake.says
    assert done.out == ""
    assert done.code == mistake.code
