"""Served by `toolkit serve` in the benches: a small tool, and one with a nested argument."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit import Toolbox, tool


@dataclass
class Item:
    name: str
    quantity: int
    tags: list[str]


@dataclass
class Order:
    number: int
    note: str
    items: list[Item]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def total(order: Order) -> int:
    """Count the items of an order."""
    return sum(item.quantity for item in order.items)


box = Toolbox("small", [add, total])
