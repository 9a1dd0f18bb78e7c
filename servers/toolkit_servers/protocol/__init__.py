"""What the protocol asks of a server, without importing mcp.

wire      one message as one line, both ways
shapes    which requests leave no doubt about their answer
offer     what a server says of itself: name, capabilities, tools
reports   progress and log messages of a call, on their way to the client
"""
