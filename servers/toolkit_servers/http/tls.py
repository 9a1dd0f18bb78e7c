"""A certificate and its key, looked at before the server starts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import ToolkitError


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its private key, both PEM files."""

    cert: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What the server answers TLS with, version 1.2 or newer.

        Raises:
            ToolkitError: a file cannot be read, is no PEM, is locked with a password, or they do not belong together.
        """
        for what, file in (("certificate", self.cert), ("key", self.key)):
            _require_pem(what, file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        except _Locked:
            what = "the TLS key is locked with a password"
            fix = f"Take the password off: openssl pkey -in {self.key} -out unlocked.pem"
            raise ToolkitError(what, where=[str(self.key)], fix=fix) from None
        except ssl.SSLError as problem:
            if problem.reason == "KEY_VALUES_MISMATCH":
                what, fix = (
                    "the TLS certificate and the key do not belong together",
                    "Give the key the certificate was made for",
                )
            else:
                what = f"the TLS files cannot be used: {problem.reason or problem}"
                fix = "Give a certificate chain and its key, both as PEM files"
            raise ToolkitError(what, where=[str(self.cert), str(self.key)], fix=fix) from None
        return context


class _Locked(Exception):
    pass


def _no_password() -> str:
    raise _Locked


def _require_pem(what: str, file: Path) -> None:
    option, kind, mark = _KINDS[what]
    try:
        text = file.read_bytes()
    except OSError as problem:
        reason = f"the TLS {what} cannot be read: {problem.strerror or problem}"
        raise ToolkitError(reason, where=[str(file)], fix=f"Check {option}") from None
    if mark not in text:
        raise ToolkitError(
            f"the TLS {what} is no PEM file of a {kind}",
            where=[str(file)],
            fix="It begins with -----BEGIN; were the two mixed up?",
        )


_KINDS = {
    "certificate": ("--tls-cert", "certificate", b"CERTIFICATE-----"),
    "key": ("--tls-key", "private key", b"PRIVATE KEY-----"),
}
