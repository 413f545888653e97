"""Are the pages of a built site whole? `python docs/_site/site_links.py FOLDER` follows each link.

A link has to lead to a page, and to a place of it, and no page may load anything from another host.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser loads at once, and the attribute that says from where."""

_DATA = {"data", "mailto", "javascript"}


class Page(HTMLParser):
    """A page: the anchors that it has, and what it refers to.

    Attributes:
        anchors: ids, and names of links.
        links: addresses of links.
        loaded: addresses of what a browser loads with the page.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get(LOADED.get(tag, "")):
            self.loaded.append(values[LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for each thing that is loaded from another host."""
    read = cache(lambda path: Page(path.read_text("utf-8")))
    pages = sorted(site.rglob("*.html"))
    if not pages:
        yield f"{site} has no pages"
    for path in pages:
        # The server's page for what it does not find has absolute links, as it stands for any address.
        if path.name == "404.html":
            continue
        page = read(path)
        where = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{where} loads {address} from another host"
        for address in dict.fromkeys([*page.links, *page.loaded]):
            yield from (f"{where} leads to {address}: {what}" for what in _problem(path, address, read))


def _problem(path: Path, address: str, read: Callable[[Path], Page]) -> Iterator[str]:
    parts = urlsplit(address)
    if parts.netloc or parts.scheme in _DATA:
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        yield "there is no such file"
    elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        yield "there is no such place on that page"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    sys.exit("\n".join(found) or 0)
