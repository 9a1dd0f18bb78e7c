"""Names of hosts an agent may reach: spelt exactly, public, and never a whole registry.

A domain is a lower-case DNS name (`docs.example.com`) or one wildcard for the names
below it (`*.example.com`, which does not include `example.com`). A scheme, a
port, a path or an address is an error here, before anything is started, and so
is a wildcard under which strangers can register names. What counts as such is
a short list of rules and names in this file, not the full public suffix list.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from toolkit.errors import SettingsError

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LOCAL_ENDINGS = frozenset({"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "arpa"})

# Second labels under which a country's registry sells names: *.co.uk, *.com.au, *.ne.jp …
_REGISTRY_LABELS = """
ac ad asso co com ed edu firm gen go gob gouv gov gv id idv ind info ltd me mil mod ne net nhs nic nom or org plc pro
sch school tm web
"""
# Places that hand out subdomains to anybody.
_SHARED_HOSTS = """
amazonaws.com appspot.com azurecontainer.io azureedge.net azurewebsites.net blogspot.com cloudapp.net cloudfront.net
cloudfunctions.net deno.dev duckdns.org dyndns.org firebaseapp.com fly.dev github.dev github.io githubusercontent.com
gitlab.io glitch.me googleapis.com herokuapp.com hf.space loca.lt myshopify.com netlify.app ngrok-free.app ngrok.app
ngrok.dev ngrok.io no-ip.org onrender.com pages.dev pipedream.net r2.dev railway.app repl.co replit.app replit.dev
requestcatcher.com run.app serveo.net streamlit.app supabase.co surge.sh trycloudflare.com vercel.app web.app
windows.net wordpress.com workers.dev
"""


def parse_domain(text: str) -> str:
    """`text` as a domain the gate and the settings understand, or a SettingsError that says what to write."""
    if not isinstance(text, str) or not text:
        raise _wrong(text, "is empty", "Write a host name, for example: docs.example.com")
    name = text.lower()
    if "://" in name:
        bare = name.split("://", 1)[1].split("/", 1)[0]
        raise _wrong(text, "has a scheme", f"Write the host alone: {bare}")
    if "/" in name or "@" in name or "?" in name:
        raise _wrong(text, "is more than a host name", "Write the host alone, for example: docs.example.com")
    if _is_address(name):
        raise _wrong(text, "is an address, not a name", "Name the host; only names that resolve publicly are reached")
    if ":" in name:
        raise _wrong(text, "has a port", f"Write {name.split(':', 1)[0]}; the port is always 443")
    if not name.isascii():
        raise _wrong(text, "is not ASCII", "Write its punycode form (xn--…)")
    if name.startswith("*."):
        _check_wildcard(text, name[2:])
        _check_labels(text, name[2:])
    elif "*" in name:
        raise _wrong(text, "has a wildcard in the wrong place", "Write *.example.com, or name each host")
    else:
        _check_labels(text, name)
    return name


def parse_domains(domains: Iterable[str]) -> tuple[str, ...]:
    """Every domain parsed, repeated ones once, in order."""
    if isinstance(domains, str):
        raise _wrong(domains, "is one string where a list belongs", f"Write [{domains!r}]")
    return tuple(dict.fromkeys(parse_domain(domain) for domain in domains))


def is_allowed(host: str, domains: Iterable[str]) -> bool:
    """Whether `host`, exactly as asked for, is one of `domains` or below a wildcard of them."""
    name = host.lower()
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return False
    return any(name.endswith(domain[1:]) if domain.startswith("*.") else name == domain for domain in domains)


def _check_labels(text: str, name: str) -> None:
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _wrong(text, "is not a DNS name", "Write a host name, for example: docs.example.com")
    if len(labels) < 2 or labels[-1] in _LOCAL_ENDINGS or labels[-1].isdigit():
        raise _wrong(text, "is not a public name", "Only hosts on the public internet can be allowed")


def _check_wildcard(text: str, name: str) -> None:
    labels = name.split(".")
    is_registry = len(labels) == 1 or (
        len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _REGISTRY_LABELS.split()
    )
    if is_registry or any(f".{name}".endswith(f".{host}") for host in _SHARED_HOSTS.split()):
        raise _wrong(text, "covers names that anybody can register", "Name each host")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _wrong(text: object, what: str, fix: str) -> SettingsError:
    return SettingsError(f"domain {text!r} {what}", fix=fix)
