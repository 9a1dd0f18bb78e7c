"""Who does a task: one worker at a time, known by a record that it made, for as long as it says that it lives."""

from toolkit.fleets.claims.accounts import Account
from toolkit.fleets.claims.claims import LEASE, Claim, Claims, Ended, Held
from toolkit.fleets.claims.names import read_name, take_name

__all__ = ["LEASE", "Account", "Claim", "Claims", "Ended", "Held", "read_name", "take_name"]
