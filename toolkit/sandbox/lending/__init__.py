"""What of the host is lent to an agent, and where things appear to it."""

from toolkit.sandbox.lending.find import Toolchain, find_toolchain
from toolkit.sandbox.lending.installation import Lent
from toolkit.sandbox.lending.layout import Layout
from toolkit.sandbox.lending.variables import reaches_the_starter

__all__ = ["Layout", "Lent", "Toolchain", "find_toolchain", "reaches_the_starter"]
