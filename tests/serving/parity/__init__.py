"""mcp is the judge: the same bytes are played to the kernel of stdio and to mcp's server, and every answer compared."""
