"""A Toolbox becomes an MCP server: in-process, over stdio, over HTTP."""

__all__: list[str] = []
