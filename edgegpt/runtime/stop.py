"""Stop strings: find the first one in a stream of text and let none of it out."""

from collections.abc import Iterable


class StopMatcher:
    """Watches one stream for stop strings.

    The stop string that is complete first ends the text, and of those that are complete at the
    same character the longest. The result does not depend on how the text is cut into pieces.
    Text that may yet become a stop string is held back: for each stop string, how much of it the
    stream ends with is followed as in Knuth, Morris and Pratt (1977).
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = [(stop, _failure_table(stop)) for stop in sorted(stops, key=len, reverse=True)]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.found: str | None = None  # the stop string that ended the text

    def push(self, text: str) -> str:
        """The text that has become certain with this piece; nothing once a stop was found."""
        if self.found is not None:
            return ""
        if not self._stops:
            return text
        for position, character in enumerate(text, start=1):
            for n, (stop, failure) in enumerate(self._stops):
                self._matched[n] = _advance(stop, failure, self._matched[n], character)
                if self._matched[n] == len(stop):
                    self.found = stop
                    whole = self._held + text[:position]
                    self._held = ""
                    return whole[: -len(stop)]
        whole = self._held + text
        certain = len(whole) - max(self._matched)
        self._held = whole[certain:]
        return whole[:certain]

    def flush(self) -> str:
        """What was held back when the stream ended without a stop string."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held


def _advance(stop: str, failure: list[int], matched: int, character: str) -> int:
    """How much of `stop` the stream ends with after one more character."""
    while matched and stop[matched] != character:
        matched = failure[matched - 1]
    return matched + (stop[matched] == character)


def _failure_table(stop: str) -> list[int]:
    """For each prefix of `stop`, the length of its longest proper prefix that is also its suffix."""
    table = [0] * len(stop)
    matched = 0
    for i in range(1, len(stop)):
        matched = _advance(stop, table, matched, stop[i])
        table[i] = matched
    return table
