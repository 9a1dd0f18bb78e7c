"""An own verifier against a real issuer on loopback: signed tokens, its keys by HTTP, and TLS."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.serving._client import BOUND, ENVELOPE, SERVE, ServedHttp
from toolkit.errors import ToolkitError
from toolkit_servers.http import Tls
from toolkit_servers.http.auth import load_verifier

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve_for_a_team"
TOOLS = (EXAMPLE / "tools.py").read_text(encoding="utf-8")
AUDIENCE = "https://tools.example/mcp"


class Issuer:
    """Signs tokens, and tells its public key."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        body = json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}).encode()

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, key: Any = None, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": now + 300, "scope": "tools"}
        return jwt.encode({**usual, **claims}, key or self.key, algorithm="RS256", headers={"kid": "one"})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.server.shutdown()
    issuer.server.server_close()


@pytest.fixture(scope="module")
def served(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISSUER", issuer.url)
        patch.setenv("AUDIENCE", AUDIENCE)
        options = ["--auth", f"{EXAMPLE / 'jwt_login.py'}:verifier"]
        with ServedHttp(tmp_path_factory.mktemp("issuer"), TOOLS, options=options) as served:
            yield served


def asked(served: ServedHttp, token: str, tool: str = "add_note") -> int:
    arguments = {"text": "x"} if tool == "add_note" else {}
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    headers = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return served.post(frame, {**headers, "Authorization": f"Bearer {token}"})[0]


def test_a_token_of_the_issuer_is_accepted_and_its_scopes_hold(served: ServedHttp, issuer: Issuer) -> None:
    assert asked(served, issuer.token()) == 200
    reader = issuer.token(scope="openid tools:read-only")
    assert (asked(served, reader, "list_notes"), asked(served, reader)) == (200, 403)
    assert asked(served, issuer.token(scope="openid")) == 403


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1_000_000_000},
        {"aud": "https://other.example"},
        {"iss": "https://other.example"},
        {"nbf": 4_000_000_000},
        {"sub": None},
    ],
)
def test_a_token_that_is_expired_or_for_others_is_401(served: ServedHttp, issuer: Issuer, claims: Any) -> None:
    claims = {key: value for key, value in claims.items() if value is not None} or {"sub": 5}
    assert asked(served, issuer.token(**claims)) == 401


def test_a_token_that_another_signed_is_401(served: ServedHttp, issuer: Issuer) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert asked(served, issuer.token(key=forger)) == 401
    header, payload, _ = issuer.token().split(".")
    assert asked(served, f"{header}.{payload}.") == 401
    assert asked(served, "not.a.token") == 401


def test_a_client_is_sent_to_the_issuer(served: ServedHttp, issuer: Issuer) -> None:
    place = served.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    with urllib.request.urlopen(place, timeout=BOUND) as page:
        assert json.load(page)["authorization_servers"] == [issuer.url]


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("verifier", "names no verifier"),
        ("login.py:nothing", "has no 'nothing'"),
        ("login.py:number", "is no TokenVerifier but a int"),
        ("login.py:Raises", "could not be made: ValueError: no"),
    ],
)
def test_what_is_no_verifier_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, what: str) -> None:
    source = "number = 5\nclass Raises:\n    def __init__(self):\n        raise ValueError('no')\n"
    (tmp_path / "login.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolkitError) as caught:
        load_verifier(spec)
    assert what in caught.value.what


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_pair(tmp_path_factory.mktemp("tls"))


def make_pair(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(names, critical=False)
    made = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    pem = serialization.Encoding.PEM
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    plain = serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return cert_file, key_file


def test_it_serves_https(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    options = ["--tls-cert", str(pair[0]), "--tls-key", str(pair[1])]
    with ServedHttp(tmp_path, TOOLS, options=options) as served:
        assert served.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(pair[0]))
        with urllib.request.urlopen(f"https://127.0.0.1:{served.port}/health", context=trusted, timeout=BOUND) as page:
            assert json.load(page)["ready"] is True
        with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert b"ready" not in client.recv(65536)


def test_wrong_pairs_are_told_in_words_before_the_start(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = make_pair(tmp_path)
    empty = tmp_path / "empty.pem"
    empty.write_text("", encoding="utf-8")
    for cert, key, what in (
        (pair[0], other[1], "do not belong together"),
        (pair[1], pair[0], "is no PEM file of a certificate"),
        (pair[0], empty, "is no PEM file of a private key"),
        (tmp_path / "none.pem", pair[1], "the TLS certificate cannot be read"),
    ):
        with pytest.raises(ToolkitError) as caught:
            Tls(cert, key).context()
        assert what in caught.value.what


def test_a_certificate_without_its_key_is_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    argv = [*SERVE, "--http", "--tls-cert", str(pair[0]), "tools.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND)
    assert (done.returncode, done.stderr) == (2, "TLS needs a certificate and its key\n  Add --tls-key FILE\n")
