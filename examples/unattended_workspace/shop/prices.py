"""Prices of a small shop, with a mistake to find."""


def total(prices: list[float], member: bool = False) -> float:
    """What an order costs; members get a tenth off."""
    return round(sum(prices) * (0.1 if member else 1), 2)
