"""Requests leave at the pace of a batch: each waits for its turn, and one that meets the limit is sent again."""

from toolkit.sandbox.gate.pacing.keeping import Bookkeeper as Bookkeeper
from toolkit.sandbox.gate.pacing.pace import Pace as Pace, Permit as Permit
from toolkit.sandbox.gate.pacing.sending import LONGEST_WAIT as LONGEST_WAIT, send_paced as send_paced
