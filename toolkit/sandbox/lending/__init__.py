"""What of the host is lent to an agent, and where things appear to it."""

from toolkit.sandbox.lending.find import Toolchain, find_toolchain, toolchain_of
from toolkit.sandbox.lending.installation import Lent
from toolkit.sandbox.lending.layout import CACHE, Layout
from toolkit.sandbox.lending.python import is_installed
from toolkit.sandbox.lending.unreadable import unreadable_text
from toolkit.sandbox.lending.variables import reaches_the_starter

__all__ = [
    "CACHE",
    "Layout",
    "Lent",
    "Toolchain",
    "find_toolchain",
    "is_installed",
    "reaches_the_starter",
    "toolchain_of",
    "unreadable_text",
]
