"""Text to token ids and back: byte-level BPE by the `tokenizers` library.

Every byte is a token of its own, so no text is out of vocabulary and none is lost. Decoding works
on bytes: ids whose bytes are not valid UTF-8 give U+FFFD, as `bytes.decode(errors="replace")`.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from tokenizers import Regex, Tokenizer as _Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from edgegpt.errors import TokenizerError, first_line

END_OF_TEXT: Final = "<|endoftext|>"
MIN_VOCAB_SIZE: Final = 257  # one token a byte, and END_OF_TEXT

Split = Literal["gpt2", "words"]

# `words`: a space is a token of its own, so a word is cut into the same tokens at any position, and a
# model can copy it out of an instruction token by token. Each digit is a token.
_WORDS: Final = r"[\p{L}\p{M}_]+|\p{N}|\s|[^\p{L}\p{M}_\p{N}\s]+"
# The parts that a file may have: those of GPT-2 and of `train`.
_KINDS: Final = {
    "pre_tokenizer": ("ByteLevel", "Split", "Sequence"),
    "post_processor": ("ByteLevel", "TemplateProcessing", "Sequence"),
}
# A Python string carries a byte that is not UTF-8 as one of these (PEP 383, surrogateescape).
_STRAY_BYTE: Final = re.compile("([\udc80-\udcff])")
# A text of this many characters is encoded as a batch of one, which releases the GIL: two megabytes would
# block other threads for seconds. It starts threads of the library, too costly for a shorter text.
_LONG: Final = 2**16


class Tokenizer:
    """A trained tokenizer.

    Attributes:
        eos_id: id of END_OF_TEXT.
        vocab_size: number of tokens.
        prompt_suffix: ids that end a prompt, often none.
    """

    def __init__(self, tokenizer: _Tokenizer) -> None:
        self._tokenizer = tokenizer
        # "<|endoftext|>" typed by a person is text, not the end of it.
        self._tokenizer.encode_special_tokens = True
        # A file may turn on either; both would change a text silently.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        eos_id = tokenizer.token_to_id(END_OF_TEXT)
        if eos_id is None:
            raise TokenizerError(f"the tokenizer has no {END_OF_TEXT} token, so a text could never end")
        self.eos_id: int = eos_id
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self._added = frozenset(tokenizer.get_added_tokens_decoder())
        self._bytes = [self._token_bytes(i) for i in range(self.vocab_size)]
        self._id_of_byte = {token: i for i, token in enumerate(self._bytes) if len(token) == 1}
        if len(self._id_of_byte) != 256:
            raise TokenizerError(
                f"not a byte-level tokenizer: only {len(self._id_of_byte)} of 256 bytes have a token"
            )
        self.prompt_suffix: tuple[int, ...] = tuple(tokenizer.encode("", add_special_tokens=True).ids)
        for i in self.prompt_suffix:
            if i >= self.vocab_size:
                raise TokenizerError(
                    f"its post_processor adds the token id {i}, but it has only {self.vocab_size} tokens"
                )

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, *, split: Split = "gpt2", mark_prompt_end: bool = False
    ) -> "Tokenizer":
        """Train byte-level BPE (Sennrich et al. 2016, on bytes as in GPT-2).

        Args:
            texts: the corpus.
            vocab_size: at most this many tokens, from 257 up; fewer where the corpus gives no more.
            split: `gpt2` joins a space to the next word; `words` keeps spaces, words and
                digits apart.
            mark_prompt_end: end every prompt with END_OF_TEXT, for models trained on pairs.

        Raises:
            TokenizerError: vocab_size is below 257.
        """
        if vocab_size < MIN_VOCAB_SIZE:
            raise TokenizerError(
                f"vocab_size must be at least {MIN_VOCAB_SIZE}, 256 bytes and {END_OF_TEXT}; got {vocab_size}"
            )
        tokenizer = _Tokenizer(models.BPE())
        if split == "words":
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(_WORDS), "isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        if mark_prompt_end:
            eos_id = tokenizer.token_to_id(END_OF_TEXT)
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"$A {END_OF_TEXT}", special_tokens=[(END_OF_TEXT, eos_id)]
            )
        return cls(tokenizer)

    @classmethod
    def from_json(cls, text: str, source: str = "tokenizer.json") -> "Tokenizer":
        """Read the text of a tokenizer.json; raises TokenizerError naming `source`."""
        try:
            _check_parts(text)
            with _panics_as("it is damaged"):
                return cls(_Tokenizer.from_str(text))
        except TokenizerError as e:
            raise TokenizerError(f"{source}: {e}") from e
        except Exception as e:  # the library raises bare Exception
            raise TokenizerError(
                f"{source} is not a tokenizer.json of the tokenizers library: {first_line(e)}"
            ) from e

    @classmethod
    def from_file(cls, path: str | Path) -> "Tokenizer":
        """Read a tokenizer.json; raises TokenizerError naming the file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise TokenizerError(f"{path} cannot be read: {e}") from e
        return cls.from_json(text, str(path))

    def to_json(self) -> str:
        """Return the tokenizer as the text of a tokenizer.json."""
        text: str = self._tokenizer.to_str(pretty=False)
        return text

    def encode(self, text: str) -> list[int]:
        """Convert text to ids; a stray byte (surrogateescape) becomes its byte token.

        Raises:
            TokenizerError: the text holds a lone surrogate that encodes no byte, or the tokenizer's
                pattern is too slow for it.
        """
        ids: list[int] = []
        for part in _STRAY_BYTE.split(text):
            if _STRAY_BYTE.fullmatch(part):
                ids.append(self._id_of_byte[part.encode("utf-8", "surrogateescape")])
            elif part:
                ids.extend(self._encode_valid(part))
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Convert text to the ids of a prompt: `encode`, then `prompt_suffix`."""
        return [*self.encode(text), *self.prompt_suffix]

    def decode(self, ids: Iterable[int]) -> str:
        """Convert ids to text; END_OF_TEXT gives nothing, invalid UTF-8 gives U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Convert ids to their bytes; raises TokenizerError for an unknown id."""
        return b"".join(self.token_bytes(i) for i in ids)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one token, empty for END_OF_TEXT; raises TokenizerError for an unknown id."""
        if not 0 <= token_id < self.vocab_size:
            raise TokenizerError(f"token id {token_id} is outside the tokenizer's 0 to {self.vocab_size - 1}")
        return self._bytes[token_id]

    def stream_decoder(self) -> "StreamDecoder":
        """Return a new decoder for one stream of ids."""
        return StreamDecoder(self)

    def _encode_valid(self, text: str) -> Sequence[int]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as e:
            raise TokenizerError(f"the text holds {text[e.start]!r}, half of a character; remove it") from e
        with _panics_as("the text cannot be split into tokens"):
            if len(text) < _LONG:
                encoding = self._tokenizer.encode(text, add_special_tokens=False)
            else:
                [encoding] = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
            ids: list[int] = encoding.ids
        return ids

    def _token_bytes(self, token_id: int) -> bytes:
        token = self._tokenizer.id_to_token(token_id)
        if token is None or token == END_OF_TEXT:
            return b""
        if token_id in self._added:  # written as plain text, not in characters for bytes
            return bytes(token, "utf-8")
        try:
            return bytes(_BYTE_OF_CHARACTER[character] for character in token)
        except KeyError as e:
            raise TokenizerError(f"not a byte-level tokenizer: it has the token {token!r}") from e


class StreamDecoder:
    """Converts ids to text incrementally; a chunk never ends inside a character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """Return the text that this id completes; may be empty."""
        return self._utf8.decode(self._tokenizer.token_bytes(token_id))

    def flush(self) -> str:
        """Return the rest at the end of the stream: U+FFFD for an unfinished character."""
        return self._utf8.decode(b"", final=True)


def _check_parts(text: str) -> None:
    """Refuse parts that would change texts silently, and those that make the library panic."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, got {type(document).__name__}")
    if (normalizer := document.get("normalizer")) is not None:
        kind = next(_parts(normalizer))[0]
        raise TokenizerError(f"it has the normalizer {kind}; only a tokenizer without one loses no text")
    for name, kinds in _KINDS.items():
        for kind, part in _parts(document.get(name)):
            if kind not in kinds:
                raise TokenizerError(f"it has the {name} {kind}, expected {', '.join(kinds)}")
            if part.get("behavior") == "Removed":
                raise TokenizerError(f"its {name} {kind} removes what it splits at; expected Isolated")
            if undefined := _undefined(part):
                raise TokenizerError(
                    f"its {name} {kind} uses the token {undefined[0]!r} but does not define it"
                )
    model = document.get("model")
    if isinstance(model, dict) and model.get("dropout"):
        raise TokenizerError(f"it leaves out merges at random, dropout {model['dropout']}; set it to null")


def _parts(part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield kind and content of a part and of those inside a Sequence."""
    if part is None:
        return
    if not isinstance(part, dict):
        yield type(part).__name__, {}
        return
    yield str(part.get("type")), part
    for key in ("pretokenizers", "processors"):
        for inner in part.get(key) or ():
            yield from _parts(inner)


def _undefined(part: dict[str, Any]) -> list[str]:
    """Return special tokens that a TemplateProcessing adds to a text but does not define."""
    defined, template = part.get("special_tokens") or {}, part.get("single")
    items = template if isinstance(template, list) else []
    tokens = [item["SpecialToken"]["id"] for item in items if "SpecialToken" in item]
    return [token for token in tokens if token not in defined]


@contextmanager
def _panics_as(what: str) -> Iterator[None]:
    """Turn a panic of the library, which is a BaseException, into a TokenizerError."""
    try:
        yield
    except BaseException as e:
        if type(e).__name__ != "PanicException":  # its class cannot be imported
            raise
        raise TokenizerError(f"{what}: {first_line(e)}") from e


def _byte_of_character() -> dict[str, int]:
    """Return GPT-2's printable characters for bytes: a printable byte is itself, others map to U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + n): byte for n, byte in enumerate(others)})
    return table


_BYTE_OF_CHARACTER: Final = _byte_of_character()
