"""What the tests share: one tiny model, its tokenizer, the two as a checkpoint folder, and files of it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from helpers.run import (  # noqa: F401  (hooks and a fixture, which pytest finds here)
    default_signals_in_children,
    pytest_collection_modifyitems,
    pytest_configure,
)
from helpers.sample_report import NAME
from hypothesis import settings

from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.model.checkpoint import save_checkpoint
from edgegpt.model.gpt import GPT
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.generator import load
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import export_checkpoint

# The types of the fixtures `refused`, `command_error` and `typed`.
Refused = Callable[..., AbstractContextManager[None]]
CommandError = Callable[..., str]
Typed = Callable[[str], list[str]]

ROVER = Path(__file__).parents[1] / "checkpoints" / "rover"

# The same examples in every run, and no limit on their time: machines are shared.
settings.register_profile("edgegpt", derandomize=True, deadline=None)
settings.load_profile("edgegpt")

# Tiny models gain nothing from threads, and on a busy machine they wait for one another.
torch.set_num_threads(1)

TINY = ModelConfig(vocab_size=272, block_size=48, n_layer=2, n_head=2, n_embd=32, dropout=0.1)

CORPUS = [
    "drive forward two metres and turn left",
    "go to the kitchen, then find the red mug",
    'say "hello there" and wait 5 seconds',
    "naïve café 😀 漢字 — e\u0301",
]


def random_gpt(config: ModelConfig, seed: int = 0) -> GPT:
    """An eval-mode GPT whose biases and norms are random too, so that no mix-up can hide."""
    torch.manual_seed(seed)
    model = GPT(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.2 if parameter.dim() == 1 else 0.08
            offset = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.normal_(offset, scale)
    return model.eval()


@pytest.fixture
def refused() -> Refused:
    """`with refused(ConfigError, "n_head", 5):` expects that error, with each value in its one sentence."""

    @contextmanager
    def expect(error: type[Exception], *values: object) -> Iterator[None]:
        with pytest.raises(error) as raised:
            yield
        message = str(raised.value)
        assert message, "an error says what is wrong"
        assert "\n" not in message
        missing = [value for value in values if str(value) not in message]
        assert not missing, f"{missing} not in {message!r}"

    return expect


@pytest.fixture
def command_error(capsys: pytest.CaptureFixture[str]) -> CommandError:
    """`command_error("info", path)` expects exit code 2 and no output, and returns the sentence on stderr."""

    def expect(*arguments: object) -> str:
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("edgegpt: ")
        assert output.err.count("\n") == 1
        return output.err

    return expect


@pytest.fixture(scope="session")
def tiny_config() -> ModelConfig:
    return TINY


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    return Tokenizer.train(CORPUS * 4, vocab_size=270, split="words", mark_prompt_end=True)


@pytest.fixture(scope="session")
def tiny_gpt() -> GPT:
    return random_gpt(TINY)


@pytest.fixture(scope="session")
def tiny_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, tiny_gpt: GPT, tiny_tokenizer: Tokenizer
) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_checkpoint(folder, tiny_gpt, tiny_tokenizer)
    return folder


@pytest.fixture
def checkpoint(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint, outside the folder that is exported to."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny checkpoint, exported under an odd name."""
    out = tmp_path_factory.mktemp("file") / NAME
    export_checkpoint(tiny_checkpoint, out)
    return out


@pytest.fixture(scope="module")
def engine(file: Path) -> Engine:
    """Of that file."""
    return load(file).engine


@pytest.fixture(scope="session")
def int8_file(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """The tiny checkpoint, exported at 8 bits."""
    out = tmp_path_factory.mktemp("int8_file") / "int8.onnx"
    export_checkpoint(tiny_checkpoint, out, precision="int8")
    return out


@pytest.fixture(scope="session")
def rover_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped checkpoint, exported."""
    out = tmp_path_factory.mktemp("rover") / "rover.onnx"
    export_checkpoint(ROVER, out)
    return out


@pytest.fixture
def typed(file: Path, tiny_checkpoint: Path, tmp_path: Path, folder: Path) -> Typed:
    """`typed("eval FILE DATA")` returns the words with paths for FILE, CHECKPOINT, DATA and OUT, a folder."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "turn left", "completion": "ok"}\n' * 3)
    paths = {"FILE": file, "CHECKPOINT": tiny_checkpoint, "DATA": data, "OUT": folder}

    def words(command: str) -> list[str]:
        heads = (word.partition("/") for word in command.split())
        return [f"{paths.get(head, head)}{slash}{rest}" for head, slash, rest in heads]

    return words
