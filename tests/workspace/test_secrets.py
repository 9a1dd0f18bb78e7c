"""Files that usually hold credentials are named before an agent sees them, and left out on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace import left_secrets_text, secrets_text

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


def test_what_is_left_out_on_request_is_named_too(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / ".env").write_text("TOKEN=x")
    with WorkspaceSection([HostMount(shop, leave_out_secrets=True)], [shop], parent=tmp_path) as section:
        said = left_secrets_text(section.left_out)
        assert left_secrets_text(()) is None
    assert said == "1 file that may hold credentials was left out: shop/.env (environment variables)"


CONFIGS = {
    '[remote "origin"]\n\turl = https://u:ghp_x@git.example.org/x.git\n': True,
    '[remote "origin"]\n\turl = https://ghp_x@git.example.org/x.git\n': True,
    '[url "https://oauth2:x@git.example.org/"]\n\tinsteadOf = git@git.example.org:\n': True,
    '[http "https://git.example.org/"]\n\textraheader = AUTHORIZATION: basic eA==\n': True,
    '[remote "origin"]\n\turl = https://git.example.org/x.git\n': False,
    '[remote "origin"]\n\turl = ssh://git@git.example.org/x.git\n': False,
    '[remote "origin"]\n\turl = git@git.example.org:x.git\n': False,
}


@pytest.mark.parametrize("text", CONFIGS)
@pytest.mark.parametrize("at", [".git", "lib/.git", ".git/modules/lib"])
def test_a_token_in_the_configuration_of_git_is_named_where_that_is_copied(tmp_path: Path, text: str, at: str) -> None:
    shop = tmp_path / "shop"
    (shop / at).mkdir(parents=True)
    (shop / at / "config").write_text(text)
    (shop / "config").write_text(text)
    with WorkspaceSection([HostMount(shop, git="copy")], [shop], parent=tmp_path) as section:
        found = {one.path: one.pattern for one in section.secrets}
    assert list(found) == ([f"shop/{at}/config"] if CONFIGS[text] else [])
    mount = HostMount(shop, git="copy", exclude_glob=tuple(found.values()))
    with WorkspaceSection([mount], [shop], parent=tmp_path) as section:
        assert section.secrets == ()
        assert (section.temp_dir / "shop" / "config").exists()
    with WorkspaceSection([HostMount(shop, git="lend")], [shop], parent=tmp_path) as section:
        assert section.secrets == ()


@pytest.mark.parametrize("mode", [0o000, 0o600])
def test_a_file_that_cannot_be_looked_at_is_no_reason_to_stop(tmp_path: Path, mode: int) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "server.pem").write_text(KEY)
    (shop / "server.pem").chmod(mode)
    with WorkspaceSection([HostMount(shop)], [shop], parent=tmp_path) as section:
        assert len(section.secrets) in (0, 1)
