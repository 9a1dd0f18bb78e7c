"""Where the servers of a run are, and how what they say can be heard there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from toolkit.sandbox import loopback_port


def is_heard(config: Mapping[str, Any]) -> bool:
    """Whether this process hears what a server says: all but those inside this process."""
    return bool(config.get("type", "stdio") != "sdk")


def heard_url(url: str) -> str:
    """The URL by which the CLI reaches a server on this machine so that it is heard: the gate speaks TLS for it."""
    return urlsplit(url)._replace(scheme="http").geturl()


def servers_at(address: str, configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The servers at an address on this machine; where its path is none of theirs, all at its port."""
    urls = {name: config["url"] for name, config in configs.items() if "url" in config}
    here = [name for name, url in urls.items() if _plain(url) == address]
    port = urlsplit(address).port
    return here or [name for name, url in urls.items() if loopback_port(url) == port]


def _plain(url: str) -> str:
    """A URL on this machine as the gate names it."""
    parts = urlsplit(url)
    return f"http://127.0.0.1:{parts.port}{parts.path or '/'}"
