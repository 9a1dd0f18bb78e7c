"""A package index and an npm registry on loopback, over TLS, and the resolver that leads a gate to them.

`python -m tests.setups.registry PORT WORDS…` is `toolkit WORDS…` with that resolver.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import ssl
import sys
import tarfile
import threading
import zipfile
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.sandbox.upstream import make_certificate
from toolkit.sandbox.gate import tunnel

HOST = "packages.example.com"
_PUBLIC = "93.184.215.14"

_BACKEND = """
import base64, hashlib, pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "tinysource-1.0-py3-none-any.whl"
    files = {
        "tinysource.py": pathlib.Path("tinysource.py").read_text(),
        "tinysource-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tinysource\\nVersion: 1.0\\n",
        "tinysource-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr("tinysource-1.0.dist-info/RECORD", "".join(f"{path},,\\n" for path in files))
    return name
"""


class Registry:
    """Serves one wheel (tiny), one source distribution (tinysource) and one npm package (tiny-js)."""

    def __init__(self, folder: Path) -> None:
        key, self.certificate = make_certificate(folder, HOST)
        self.asked: list[str] = []
        """The paths that were asked for."""
        pages = self._pages()
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append(self.path)
                kind, body = pages.get(self.path, ("text/plain", b""))
                self.send_response(200 if body else 404)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @staticmethod
    def _pages() -> dict[str, tuple[str, bytes]]:
        wheel, source, module = _wheel(), _source(), npm_tarball()
        links = {"tiny": "tiny-1.0-py3-none-any.whl", "tinysource": "tinysource-1.0.tar.gz"}
        pages = {
            f"/simple/{name}/": ("text/html", f'<!DOCTYPE html><a href="/files/{file}">{file}</a>'.encode())
            for name, file in links.items()
        }
        pages["/files/tiny-1.0-py3-none-any.whl"] = ("application/zip", wheel)
        pages["/files/tinysource-1.0.tar.gz"] = ("application/gzip", source)
        pages["/tiny-js/-/tiny-js-1.0.0.tgz"] = ("application/octet-stream", module)
        return pages


def npm_lock() -> str:
    """The lock file of a package that depends on tiny-js."""
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(npm_tarball()).digest()).decode()
    module = {"version": "1.0.0", "resolved": f"https://{HOST}/tiny-js/-/tiny-js-1.0.0.tgz", "integrity": integrity}
    top = {"name": "shop", "version": "1.0.0", "dependencies": {"tiny-js": "1.0.0"}}
    packages = {"": top, "node_modules/tiny-js": {**module, "bin": {"tiny-js": "i.js"}}}
    return json.dumps({"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "packages": packages}, indent=1)


def npm_tarball() -> bytes:
    """The npm package, the same bytes every time."""
    manifest = json.dumps({"name": "tiny-js", "version": "1.0.0", "main": "i.js", "bin": {"tiny-js": "i.js"}})
    return _tarball({"package/package.json": manifest, "package/i.js": "#!/usr/bin/env node\nmodule.exports = 6\n"})


def _wheel() -> bytes:
    data = io.BytesIO()
    files = {
        "tiny.py": "SIZE = 6\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:print\n",
    }
    with zipfile.ZipFile(data, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr("tiny-1.0.dist-info/RECORD", "".join(f"{path},,\n" for path in files))
    return data.getvalue()


def _source() -> bytes:
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = '[project]\nname = "tinysource"\nversion = "1.0"\n'
    top = "tinysource-1.0"
    return _tarball(
        {
            f"{top}/pyproject.toml": build + project,
            f"{top}/backend.py": _BACKEND,
            f"{top}/tinysource.py": "SIZE = 7\n",
            f"{top}/PKG-INFO": "Metadata-Version: 2.1\nName: tinysource\nVersion: 1.0\n",
        }
    )


def _tarball(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(data.getvalue(), mtime=0)


def resolve_to(port: int) -> None:
    """Every public name leads to one port of loopback; all else that a gate checks, it still does."""

    async def addresses(host: str) -> list[str]:
        return [_PUBLIC]

    async def dial(found: Sequence[str], wanted: int = 443) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert (found, wanted) == ([_PUBLIC], 443)
        return await asyncio.open_connection("127.0.0.1", port)

    vars(tunnel).update(public_addresses=addresses, dial=dial)


if __name__ == "__main__":
    resolve_to(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    from toolkit.cli import main

    main()
