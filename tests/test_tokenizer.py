"""edgegpt.tokenizer: no byte is lost, and no character is cut."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CORPUS, Refused
from hypothesis import example, given, strategies as st

from edgegpt.errors import TokenizerError
from edgegpt.tokenizer import END_OF_TEXT, MIN_VOCAB_SIZE, Split, Tokenizer

TEXTS = [*CORPUS, "the red mug, the blue mug and the mug", "0123 45 6789", "  two  spaces\n\n\ttab"] * 3
TOKENIZERS: dict[str, Tokenizer] = {
    "gpt2": Tokenizer.train(TEXTS, 400),
    "words": Tokenizer.train(TEXTS, 400, split="words"),
    "bytes": Tokenizer.train(TEXTS, MIN_VOCAB_SIZE),
    "pairs": Tokenizer.train(TEXTS, 300, split="words", mark_prompt_end=True),
}
HARD = [
    "",
    " ",
    "\x00",
    "a\x00b\r\n",
    "👩‍👩‍👧‍👦🏳️‍🌈😀",
    "漢字かな交じり文",
    "e\u0301 \u0301\u0302\u0303",
    "مرحبا שלום",
    "\ufeffBOM \u200b\u00a0\u2028",
    "\U0010ffff\ufffd\uffff",
    END_OF_TEXT,
    f"a{END_OF_TEXT}b",
    "Ġ Ċ are stand-ins for space and newline",
    "\udcff\udc80",
    "😀\udcf0\udc9f\udc98",
]

# Characters, and bytes that are not UTF-8 as os.fsdecode and surrogateescape write them.
characters = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("😀漢e\u0301\x00 \n'"))
texts = st.text(st.one_of(characters, characters, st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)))
any_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)


def and_hard_ones(test: Callable[..., None]) -> Callable[..., None]:
    for text in HARD:
        test = example(text=text)(test)
    return test


@any_tokenizer
@given(text=texts | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
@and_hard_ones
def test_no_byte_of_any_text_is_lost(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text)
    assert tokenizer.decode_bytes(ids) == text.encode("utf-8", "surrogateescape")
    assert tokenizer.eos_id not in ids
    assert all(0 <= i < tokenizer.vocab_size for i in ids)


@any_tokenizer
def test_a_text_of_any_length_is_cut_alike(name: str) -> None:
    line, times = "the red mug and 23 more\n", 6000  # long enough for the other way through the library
    assert TOKENIZERS[name].encode(line * times) == TOKENIZERS[name].encode(line) * times


def test_half_a_surrogate_pair_is_no_text(refused: Refused) -> None:
    with refused(TokenizerError, r"'\ud83d'"):
        TOKENIZERS["gpt2"].encode("broken \ud83d")


@any_tokenizer
@given(data=st.data())
def test_chunks_of_a_stream_join_to_the_whole_decode(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))  # any ids, mostly invalid UTF-8
    stream = tokenizer.stream_decoder()
    chunks = [stream.push(i) for i in ids]
    assert "".join(chunks) + stream.flush() == tokenizer.decode(ids)


@any_tokenizer
@given(text=st.text(characters))
@example(text="👩‍👩‍👧‍👦 漢字 e\u0301\x00")
def test_a_valid_text_comes_back_and_a_chunk_is_never_part_of_a_character(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    stream, ids, so_far = tokenizer.stream_decoder(), tokenizer.encode(text), ""
    for i in ids:
        so_far += stream.push(i)
        assert text.startswith(so_far)  # so nothing was emitted that a later byte would change
    assert so_far == text == tokenizer.decode(ids)
    assert stream.flush() == ""


def test_a_character_comes_with_its_last_byte_and_an_unfinished_one_ends_as_a_replacement() -> None:
    tokenizer = TOKENIZERS["bytes"]
    whole, cut = tokenizer.stream_decoder(), tokenizer.stream_decoder()  # at once, and they do not meet
    ids = tokenizer.encode("a😀b")
    assert [whole.push(i) + cut.push(i) for i in ids[:4]] == ["aa", "", "", ""]
    assert cut.flush() == "\ufffd"
    assert [whole.push(i) for i in ids[4:]] == ["😀", "b"]


@pytest.mark.parametrize("split", ["gpt2", "words"])
@pytest.mark.parametrize("size", [257, 258, 270, 300, 333])
def test_any_vocabulary_size_from_257_up_is_met_exactly(split: Split, size: int) -> None:
    tokenizer = Tokenizer.train(TEXTS, size, split=split)
    assert tokenizer.vocab_size == size
    assert max(tokenizer.encode("".join(TEXTS))) < size
    assert 0 <= tokenizer.eos_id < size


def test_a_vocabulary_that_cannot_hold_every_byte_is_refused(refused: Refused) -> None:
    for size in (256, 0, -1):
        with refused(TokenizerError, "vocab_size", 257, size):
            Tokenizer.train(TEXTS, size)


def test_a_corpus_that_gives_no_more_ends_smaller() -> None:
    assert MIN_VOCAB_SIZE <= Tokenizer.train(["ab"], 5000).vocab_size < 300
    assert Tokenizer.train([], 5000).vocab_size == MIN_VOCAB_SIZE


def test_training_twice_gives_the_same_tokenizer() -> None:
    assert Tokenizer.train(TEXTS, 350).to_json() == Tokenizer.train(TEXTS, 350).to_json()


def test_the_end_token_is_no_text_and_ends_the_prompts_of_a_pair_model_alone() -> None:
    pairs, plain = TOKENIZERS["pairs"], TOKENIZERS["words"]
    assert pairs.encode_prompt("go") == [*pairs.encode("go"), pairs.eos_id]
    assert plain.encode_prompt("go") == plain.encode("go")
    assert pairs.decode(pairs.encode_prompt("go")) == "go"
    assert pairs.stream_decoder().push(pairs.eos_id) == ""


@given(st.text(st.characters(categories=["L"]), min_size=1), st.integers(0, 10**12))
@example("mug", 0)
@example("Zahnbürste", 12)
def test_the_split_by_words_cuts_words_alike_and_numbers_into_digits(word: str, number: int) -> None:
    tokenizer = TOKENIZERS["words"]
    encode = tokenizer.encode
    alone = encode(word)
    assert encode(f" {word}") == [*encode(" "), *alone]
    assert encode(f'"{word}"') == [*encode('"'), *alone, *encode('"')]
    assert encode(f"the {word}, please") == [*encode("the "), *alone, *encode(", please")]
    assert [tokenizer.token_bytes(i).decode() for i in encode(str(number))] == list(str(number))


def test_the_gpt2_split_joins_a_space_to_its_word() -> None:
    tokenizer = TOKENIZERS["gpt2"]
    assert b" the" in [tokenizer.token_bytes(i) for i in tokenizer.encode("on the mug")]


@any_tokenizer
def test_a_tokenizer_survives_its_file(name: str, tmp_path: Path) -> None:
    tokenizer, path = TOKENIZERS[name], tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.from_file(path)
    assert again.to_json() == tokenizer.to_json()
    assert (again.vocab_size, again.eos_id) == (tokenizer.vocab_size, tokenizer.eos_id)
    for text in HARD:
        assert again.encode_prompt(text) == tokenizer.encode_prompt(text)


def changed(**changes: object) -> str:
    return json.dumps({**json.loads(TOKENIZERS["gpt2"].to_json()), **changes})


WORD_LEVEL = {"type": "WordLevel", "vocab": {END_OF_TEXT: 0, "漢": 1}, "unk_token": END_OF_TEXT}
NO_BYTES = {"type": "BPE", "vocab": {END_OF_TEXT: 0, "a": 1, "b": 2}, "merges": []}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", "tokenizer.json"),
        ("[]", "list"),
        ("{}", "tokenizer.json"),
        ("not json", "tokenizer.json"),
        (TOKENIZERS["gpt2"].to_json()[:-100], "tokenizer.json"),
        (changed(added_tokens=[], model={**NO_BYTES, "vocab": {"a": 0}}), END_OF_TEXT),
        (changed(model=NO_BYTES), 2),
        (changed(model=WORD_LEVEL), "'漢'"),
    ],
    ids=["empty", "list", "object", "text", "truncated", "no end", "no bytes", "words"],
)
def test_a_file_that_is_no_byte_level_tokenizer_is_refused(
    tmp_path: Path, refused: Refused, text: str, value: object
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    with refused(TokenizerError, path, value):
        Tokenizer.from_file(path)


REPLACED = {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
SPLIT = {"type": "Split", "pattern": {"Regex": " "}, "behavior": "Isolated", "invert": False}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
END = {"SpecialToken": {"id": "</s>", "type_id": 0}}
TEMPLATE = {"type": "TemplateProcessing", "pair": [], "single": [END]}
UNDEFINED = {**TEMPLATE, "special_tokens": {}}
BEYOND = {"</s>": {"id": "</s>", "ids": [90_000], "tokens": ["</s>"]}}


def sequence(*parts: object, of: str = "pretokenizers") -> dict[str, object]:
    return {"type": "Sequence", of: parts}


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"normalizer": {"type": "NFC"}}, "NFC"),
        ({"normalizer": PRECOMPILED}, "Precompiled"),
        ({"normalizer": {"type": "Sequence", "normalizers": [REPLACED]}}, "Sequence"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "Whitespace"),
        ({"pre_tokenizer": sequence(SPLIT, sequence({"type": "Bert"}))}, "Bert"),
        ({"pre_tokenizer": [SPLIT]}, "list"),
        ({"pre_tokenizer": {"add_prefix_space": True}}, "None"),
        ({"pre_tokenizer": sequence({**SPLIT, "behavior": "Removed"}, BYTES)}, "Isolated"),
        ({"post_processor": {"type": "BertProcessing"}}, "BertProcessing"),
        ({"post_processor": UNDEFINED}, "'</s>'"),
        ({"post_processor": sequence(UNDEFINED, of="processors")}, "'</s>'"),
        ({"post_processor": {**TEMPLATE, "special_tokens": BEYOND}}, 90000),
        ({"model": {**json.loads(TOKENIZERS["gpt2"].to_json())["model"], "dropout": 0.5}}, "dropout 0.5"),
    ],
    ids=str,
)
def test_a_part_that_changes_texts_or_is_damaged_is_refused(
    refused: Refused, changes: dict[str, object], value: object, capfd: pytest.CaptureFixture[str]
) -> None:
    with refused(TokenizerError, "here", value):
        Tokenizer.from_json(changed(**changes), "here")
    assert capfd.readouterr().err == ""  # the library's panics print a stack


@pytest.mark.parametrize(
    "changes",
    [
        {"pre_tokenizer": sequence(SPLIT, BYTES)},
        {"post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}},
        {"post_processor": None},
    ],
    ids=str,
)
def test_the_parts_of_gpt2_s_own_tokenizer_are_taken(changes: dict[str, object]) -> None:
    tokenizer = Tokenizer.from_json(changed(**changes))
    assert tokenizer.decode(tokenizer.encode(" go to 漢字")) == " go to 漢字"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"normalizer":' * 100_000, changed(model=[[[]]])])
def test_a_damaged_file_is_one_short_line(refused: Refused, text: str) -> None:
    with refused(TokenizerError, "here"):
        Tokenizer.from_json(text, "here")
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_json(text, "here")
    assert len(str(error.value)) < 300


def test_a_panic_of_the_library_is_a_tokenizer_error(refused: Refused) -> None:
    endless = {**SPLIT, "pattern": {"Regex": "(a+)+$|(.+)+#"}}
    tokenizer = Tokenizer.from_json(changed(pre_tokenizer=sequence(endless, BYTES)))
    for n in (5000, 100_000):
        with refused(TokenizerError, "Onig"):
            tokenizer.encode("a" * n + "b")


def test_a_missing_file_a_folder_and_a_binary_file_are_named(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none", tmp_path, tmp_path / "binary"):
        with refused(TokenizerError, path):
            Tokenizer.from_file(path)


def test_a_file_cannot_ask_for_texts_to_be_cut_or_padded() -> None:
    cut = {"max_length": 2, "direction": "Right", "stride": 0, "strategy": "LongestFirst"}
    pad = {
        **{"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None},
        **{"pad_id": 0, "pad_type_id": 0, "pad_token": END_OF_TEXT},
    }
    tokenizer = Tokenizer.from_json(changed(truncation=cut, padding=pad))
    assert tokenizer.encode_prompt(CORPUS[0]) == TOKENIZERS["gpt2"].encode(CORPUS[0])


def test_an_added_token_is_its_own_text() -> None:
    added = json.loads(TOKENIZERS["gpt2"].to_json())["added_tokens"]
    extra = {**added[0], "id": TOKENIZERS["gpt2"].vocab_size, "content": "é1", "special": False}
    tokenizer = Tokenizer.from_json(changed(added_tokens=[*added, extra]))
    ids = tokenizer.encode("aé1b")
    assert extra["id"] in ids
    assert tokenizer.decode(ids) == "aé1b"


@pytest.mark.parametrize("token_id", [-1, 257, 10**9])
def test_an_unknown_id_is_refused_with_the_range(refused: Refused, token_id: int) -> None:
    tokenizer = TOKENIZERS["bytes"]
    for call in (tokenizer.decode, tokenizer.decode_bytes):
        with refused(TokenizerError, token_id, 256):
            call([token_id])
    with refused(TokenizerError, token_id, 256):
        tokenizer.stream_decoder().push(token_id)


@any_tokenizer
def test_the_tokens_bytes_are_all_different(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert len({tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}) == tokenizer.vocab_size
