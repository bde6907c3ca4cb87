"""edgegpt.runtime.stream.StopMatcher: stop strings equal brute force, however the text is cut."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from edgegpt.runtime.stream import StopMatcher


def run(stops: Sequence[str], chunks: Sequence[str]) -> tuple[list[str], str | None]:
    """What each chunk and then the end gives, and the stop string that was found."""
    matcher = StopMatcher(stops)
    return [*(matcher.push(chunk) for chunk in chunks), matcher.flush()], matcher.found


def brute_force(stops: Sequence[str], text: str) -> tuple[str, str | None]:
    """The text before the stop that is complete first, of those the longest; and that stop."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


AB = st.text("ab", max_size=30)


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), max_size=4),
    st.lists(st.text("ab", max_size=4), max_size=12),
)
def test_the_stream_equals_brute_force_on_the_whole_text(stops: list[str], chunks: list[str]) -> None:
    texts, found = run(stops, chunks)
    assert ("".join(texts), found) == brute_force(stops, "".join(chunks))


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4), AB)
def test_only_what_could_become_a_stop_is_held_back(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    out = ""
    for n, character in enumerate(text, start=1):
        out += matcher.push(character)
        if matcher.found is not None:
            return
        held = text[len(out) : n]
        suffixes = [text[:n][-k:] for k in range(1, n + 1)]
        possible = [s for s in suffixes if any(stop.startswith(s) for stop in stops)]
        assert held == max(possible, key=len, default="")


@pytest.mark.parametrize("chunks", [["aaab"], ["a", "a", "a", "b"], ["aa", "ab"], ["aaa", "b!"]])
def test_a_stop_that_overlaps_itself_is_found(chunks: list[str]) -> None:
    texts, found = run(["aab"], chunks)
    assert ("".join(texts), found) == ("a", "aab")


@pytest.mark.parametrize("chunks", [["abcd"], ["ab", "cd"], ["a", "b", "c", "d"]])
def test_the_stop_that_is_complete_first_wins_however_the_text_is_cut(chunks: list[str]) -> None:
    texts, found = run(["abcd", "bc"], chunks)
    assert ("".join(texts), found) == ("a", "bc")


def test_of_two_complete_at_the_same_character_the_longest_wins() -> None:
    assert run(["c", "abc"], ["xabcd"]) == (["x", ""], "abc")


def test_text_without_a_stop_comes_out_whole_at_the_end() -> None:
    assert run(["END"], ["the E", "N"]) == (["the ", "", "EN"], None)


def test_nothing_comes_out_after_a_stop() -> None:
    assert run(["."], ["one. two", " three"]) == (["one", "", ""], ".")


def test_without_stop_strings_text_passes_at_once() -> None:
    assert run([], ["a", "b"]) == (["a", "b", ""], None)
