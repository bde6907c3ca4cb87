"""What a page holds: its tags with their attributes, its text, and the cells of its tables."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

_BREAKS = ("td", "th", "tr", "p", "li", "dt", "dd", "caption", "h1", "h2", "small", "pre")


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        tags: each tag with its attributes.
        text: the text, with single spaces.
        rows: texts of the cells of each table row.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self._parts: list[str] = []
        self._cell = False
        self.feed(html)
        self.rows = [[_spaced(cell) for cell in row] for row in self.rows]
        self.text = _spaced("".join(self._parts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in _BREAKS:
            self._parts.append(" ")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = tag in ("td", "th") or (self._cell and tag != "small")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self._parts.append(data)
        if self._cell:
            self.rows[-1][-1] += data

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)

    def classes(self) -> set[str]:
        return {name for _, attributes in self.tags for name in (attributes.get("class") or "").split()}


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
