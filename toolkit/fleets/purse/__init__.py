"""One spend limit for many machines: who holds which part of it, and what is left."""

from toolkit.fleets.purse.ledger import Amount as Amount, Holding as Holding, Ledger as Ledger
from toolkit.fleets.purse.purse import SharedPurse as SharedPurse
from toolkit.fleets.purse.share import Share as Share, SpentError as SpentError
