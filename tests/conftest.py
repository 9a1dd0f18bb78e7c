"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with interrupts ignored, and
# everything the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
