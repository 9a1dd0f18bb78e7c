"""A page under test: opened from disk or loopback, with a record of every request and every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

FLAGS = [
    "--no-sandbox",  # the tests may run as root; nothing foreign is loaded
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Opened:
    """Pages of one test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.requests: list[str] = []
        """The address of everything that was asked for."""
        self.problems: list[str] = []
        """Errors, complaints of the console and dialogs."""

    async def __call__(self, place: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Open a page and wait until it is drawn."""
        scheme: Any = "dark" if dark else "light"
        context = await self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(60_000)
        self._contexts.append(context)
        page = await context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        await page.goto(place.as_uri() if isinstance(place, Path) else place)
        await page.wait_for_selector("html[data-ready]")
        return page

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


# Rows that the browser has not drawn yet have no visible text. It draws with its next frames; a page in the background has none.
_DRAWN = "new Promise(done => { setTimeout(done, 1000); requestAnimationFrame(() => requestAnimationFrame(done)); })"


async def texts(page: Page, selector: str) -> list[str]:
    """The visible text of every element that matches."""
    await page.evaluate(_DRAWN)
    return [" ".join(found.split()) for found in await page.locator(selector).all_inner_texts()]
