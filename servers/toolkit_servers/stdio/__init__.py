"""Serve a Toolbox over stdin and stdout: claim both for the protocol, serve, and end with the client."""

from toolkit_servers.stdio._claim import claim_stdio, explain_first_print, serve_stdio

__all__ = ["claim_stdio", "explain_first_print", "serve_stdio"]
