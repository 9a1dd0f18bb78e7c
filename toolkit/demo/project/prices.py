"""Prices of a small shop."""

# TODO: read the rate from the order
DISCOUNT = 0.10


def total(prices: list[float], *, member: bool = False) -> float:
    """What an order costs; members get a tenth off."""
    amount = sum(prices)
    if member:
        amount = amount * DISCOUNT
    return round(amount, 2)
