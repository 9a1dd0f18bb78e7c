"""Files that usually hold credentials are named before an agent sees them, and left out on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace import secrets_text

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"
SECRET = {
    ".env": "TOKEN=x",
    "deploy/.env.production": "TOKEN=x",
    ".netrc": "machine x",
    "keys/id_ed25519": "x",
    ".npmrc": "//packages.example.org/:_authToken=x",
    ".pypirc": "[x]",
    "server.pem": KEY,
    "gcp-service-account.json": '{"type": "service_account", "private_key": "x"}',
    ".aws/credentials": "aws_secret_access_key = x",
    "store.p12": "x",
}
ORDINARY = {
    ".env.example": "TOKEN=",
    "id_rsa.pub": "ssh-rsa x",
    "sub/.npmrc": "save-exact=true",
    "ca.pem": "-----BEGIN CERTIFICATE-----",
    "keyboard.json": "{}",
    "credentials": "see the wiki",
    "environment.py": "x",
}


def _project(tmp_path: Path) -> Path:
    for name, text in {**SECRET, **ORDINARY}.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


def test_what_usually_holds_credentials_is_named_with_the_pattern_that_leaves_it_out(tmp_path: Path) -> None:
    shop = _project(tmp_path)
    with WorkspaceSection([HostMount(shop)], [shop], parent=tmp_path) as section:
        assert {one.path.removeprefix("shop/") for one in section.secrets} == SECRET.keys()
        assert all((section.temp_dir / "shop" / name).exists() for name in SECRET)
        patterns = tuple(one.pattern for one in section.secrets)
        said = secrets_text(section.secrets)
    assert said.startswith("10 files that the agent can read may hold credentials: shop/.aws/credentials (access keys)")
    assert said.endswith("or all such: --leave-out-secrets")
    with WorkspaceSection([HostMount(shop, exclude_glob=patterns)], [shop], parent=tmp_path) as section:
        assert section.secrets == ()


def test_they_are_left_out_on_request_and_nothing_else_is(tmp_path: Path) -> None:
    shop = _project(tmp_path)
    with WorkspaceSection([HostMount(shop, leave_out_secrets=True)], [shop], parent=tmp_path) as section:
        there = {
            str(path.relative_to(section.temp_dir / "shop")) for path in section.temp_dir.rglob("*") if path.is_file()
        }
        left = {one.path for _, one in section.left_out if one.why == "holds credentials"}
        assert section.secrets == ()
    assert there == ORDINARY.keys()
    assert left == SECRET.keys()


@pytest.mark.parametrize("mode", [0o000, 0o600])
def test_a_file_that_cannot_be_looked_at_is_no_reason_to_stop(tmp_path: Path, mode: int) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "server.pem").write_text(KEY)
    (shop / "server.pem").chmod(mode)
    with WorkspaceSection([HostMount(shop)], [shop], parent=tmp_path) as section:
        assert len(section.secrets) in (0, 1)
