"""The journal of a batch in a store, so that a caller on another machine can go on with the batch."""

from toolkit.fleets.journals.attending import Attendance, AttendanceLostError, attend
from toolkit.fleets.journals.taking_over import take_over

__all__ = ["Attendance", "AttendanceLostError", "attend", "take_over"]
