"""What a page says: its text, and its tags with their attributes."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

_BREAKS = ("td", "th", "tr", "p", "li", "dt", "dd", "caption", "h1", "h2", "small", "pre")


class Seen(HTMLParser):
    """Text, with a new line for each cell and paragraph, and tags with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in _BREAKS:
            self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\xa0", " ")

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


def words(html: str) -> str:
    """The text with a single space between two words."""
    return re.sub(r"\s+", " ", Seen(html).text)
