"""edgegpt.runtime.stream.StopMatcher: stop strings equal brute force, however the text is cut."""

from hypothesis import example, given, strategies as st

from edgegpt.runtime.stream import StopMatcher

STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)


def brute_force(stops: list[str], text: str) -> tuple[str, str | None]:
    """The text before the stop that is complete first, of those the longest; and that stop."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(STOPS, st.lists(st.text("ab", max_size=4), max_size=12))
@example(["abcd", "bc"], ["ab", "cd"])
@example(["c", "abc"], ["xabcd"])
@example(["aab"], ["aa", "ab", " and on"])
def test_the_stream_equals_brute_force_on_the_whole_text(stops: list[str], chunks: list[str]) -> None:
    matcher = StopMatcher(stops)
    text = "".join(map(matcher.push, chunks)) + matcher.flush()
    assert (text, matcher.found) == brute_force(stops, "".join(chunks))


@given(STOPS, st.text("ab", max_size=30))
def test_only_what_could_become_a_stop_is_held_back(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    out = ""
    for n, character in enumerate(text, start=1):
        out += matcher.push(character)
        if matcher.found is not None:
            return
        suffixes = [text[:n][-k:] for k in range(1, n + 1)]
        possible = [s for s in suffixes if any(stop.startswith(s) for stop in stops)]
        assert text[len(out) : n] == max(possible, key=len, default="")
