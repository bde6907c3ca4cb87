"""edgegpt.model.checkpoint: a folder is saved and loaded whole, and a damaged one is refused."""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from conftest import TINY, Refused, random_gpt
from safetensors.torch import load_file, save_file

from edgegpt.errors import CheckpointError, ConfigError, EdgeGPTError, TokenizerError
from edgegpt.model import GPT, WEIGHTS, checkpoint as model_checkpoint, load_checkpoint, save_checkpoint
from edgegpt.model.checkpoint import CONFIG, TOKENIZER
from edgegpt.tokenizer import Tokenizer

Damage = Callable[[Path], object]  # of a checkpoint


def rewrite(**changes: torch.Tensor | None) -> Damage:
    """Replace tensors, or with None remove them."""
    named = {name.replace("__", "."): tensor for name, tensor in changes.items()}

    def write(folder: Path) -> None:
        state = {**load_file(folder / WEIGHTS), **named}
        save_file({name: t for name, t in state.items() if t is not None}, folder / WEIGHTS)

    return write


def edit(old: str, new: str) -> Damage:
    """Edit the config."""

    def write(folder: Path) -> None:
        text = (folder / CONFIG).read_text()
        assert old in text
        (folder / CONFIG).write_text(text.replace(old, new))

    return write


def one(value: float, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return zeros of which one is the value."""
    tensor = torch.zeros(shape, dtype=dtype)
    tensor.view(-1)[100 % tensor.numel()] = value
    return tensor


def cut(name: str, length: int) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


def missing(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_is_loaded_and_stays_as_it_was(
    tmp_path: Path, tiny_tokenizer: Tokenizer, dtype: torch.dtype, tied: bool
) -> None:
    model = random_gpt(replace(TINY, tie_embeddings=tied, qkv_bias=tied)).train()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    save_checkpoint(tmp_path, model, tiny_tokenizer, dtype)
    assert model.training
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())

    loaded, weights = load_checkpoint(tmp_path), tmp_path / WEIGHTS
    assert {path.name for path in tmp_path.iterdir()} == {CONFIG, WEIGHTS, TOKENIZER}
    assert weights.stat().st_size < 1.15 * dtype.itemsize * sum(p.numel() for p in model.parameters())
    assert loaded.config == model.config
    assert loaded.tokenizer.to_json() == tiny_tokenizer.to_json()
    assert loaded.weights_sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    for name, parameter in loaded.model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, before[name].to(dtype).float()), name
    assert not loaded.model.training
    ids = torch.arange(20)[None]
    if dtype == torch.float32:
        assert torch.equal(loaded.model(ids), model.eval()(ids))


MANY = rewrite(
    wte__weight=torch.zeros(10, 32),
    norm_f__bias=None,
    blocks__0__attn__qkv__bias=torch.zeros(96),
    blocks__1__mlp__fc__bias=torch.zeros(128, dtype=torch.int32),
    head__weight=torch.full((TINY.vocab_size, TINY.n_embd), float("nan")),
)
FLOAT4 = torch.zeros(32, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
LAYERS = 1_000_000_000
DAMAGES: list[tuple[Damage, type[EdgeGPTError], list[object]]] = [
    (MANY, CheckpointError, [WEIGHTS, "wte.weight", [10, 32], [272, 32], "norm_f.bias"]),
    (MANY, CheckpointError, ["blocks.0.attn.qkv.bias", "blocks.1.mlp.fc.bias", "torch.int32"]),
    (MANY, CheckpointError, ["head.weight", "NaN"]),
    *(
        (rewrite(blocks__0__mlp__fc__weight=one(value, 128, 32)), CheckpointError, ["blocks.0.mlp.fc.weight"])
        for value in (float("nan"), float("inf"), float("-inf"))
    ),
    (rewrite(norm_f__bias=one(1e300, 32, dtype=torch.double)), CheckpointError, ["norm_f.bias", "float32"]),
    (rewrite(norm_f__bias=FLOAT4), CheckpointError, ["norm_f.bias", "torch.float4_e2m1fn_x2"]),
    (edit("tie_embeddings: false", "tie_embeddings: true"), CheckpointError, ["head.weight"]),
    (edit("n_layer: 2", f"n_layer: {LAYERS}"), ConfigError, ["n_layer", 1024, LAYERS]),
    (edit("n_head: 2", "n_head: 2\nn_heads: 2"), ConfigError, [CONFIG, "'n_heads'", "'n_head'"]),
    (lambda folder: (folder / TOKENIZER).write_text("{}"), TokenizerError, [TOKENIZER]),
    *((missing(name), CheckpointError, [name]) for name in (CONFIG, WEIGHTS, TOKENIZER)),
    *((cut(WEIGHTS, length), CheckpointError, [WEIGHTS]) for length in (0, 4, 100, 5000, -1)),
]


@pytest.mark.parametrize(("damage", "error", "values"), DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_its_folder_and_everything_that_is_wrong(
    checkpoint: Path, damage: Damage, error: type[EdgeGPTError], values: list[object], refused: Refused
) -> None:
    damage(checkpoint)
    with refused(error, checkpoint, *values):
        load_checkpoint(checkpoint)


def test_any_floating_point_type_is_read(checkpoint: Path) -> None:
    zeros = torch.zeros(32)
    rewrite(norm_f__bias=zeros.to(torch.float8_e4m3fn), norm_f__weight=zeros.double())(checkpoint)
    assert load_checkpoint(checkpoint).model.norm_f.weight.dtype == torch.float32


def test_many_differences_are_counted(checkpoint: Path) -> None:
    edit("n_layer: 2", "n_layer: 1000")(checkpoint)
    with pytest.raises(CheckpointError, match=r"blocks\.2\.norm_1\.weight .*\b\d{5}\b") as error:
        load_checkpoint(checkpoint)
    assert len(str(error.value)) < 1000


def test_weights_that_may_not_be_read_are_named_with_the_cause(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    denied = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(model_checkpoint, "load_file", denied)
    with refused(CheckpointError, checkpoint / WEIGHTS, "Permission denied"):
        load_checkpoint(checkpoint)


def test_a_folder_that_is_missing_empty_or_a_file_is_refused(
    checkpoint: Path, folder: Path, refused: Refused
) -> None:
    with refused(CheckpointError, folder / "none"):
        load_checkpoint(folder / "none")
    with refused(CheckpointError, CONFIG, WEIGHTS, TOKENIZER):
        load_checkpoint(folder)
    with refused(CheckpointError, checkpoint / WEIGHTS, "folder"):
        load_checkpoint(checkpoint / WEIGHTS)


def test_a_tokenizer_larger_than_the_model_is_refused_with_both_numbers(
    tmp_path: Path, tiny_tokenizer: Tokenizer, refused: Refused
) -> None:
    save_checkpoint(tmp_path, random_gpt(replace(TINY, vocab_size=260)), tiny_tokenizer)
    with refused(CheckpointError, 270, 260):
        load_checkpoint(tmp_path)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_in_place_of_the_weights_runs_no_code(
    checkpoint: Path, tmp_path: Path, refused: Refused
) -> None:
    trap = Trap(tmp_path / "sprung")
    pickled: list[Damage] = [
        lambda path: path.write_bytes(pickle.dumps(trap)),
        lambda path: torch.save({"wte.weight": trap}, path),
    ]
    for write in pickled:
        write(checkpoint / WEIGHTS)
        with refused(CheckpointError, checkpoint / WEIGHTS):
            load_checkpoint(checkpoint)
        assert not trap.path.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_the_old_checkpoint_whole(
    checkpoint: Path,
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    refused: Refused,
) -> None:
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}

    def half(_: object, path: Path, **__: object) -> None:
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(model_checkpoint, "save_file", half)
    interrupted = pytest.raises(KeyboardInterrupt)
    full = refused(CheckpointError, checkpoint, "No space left")
    with full if isinstance(error, OSError) else interrupted:
        save_checkpoint(checkpoint, random_gpt(replace(TINY, n_layer=1), seed=1), tiny_tokenizer)
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before
    load_checkpoint(checkpoint)


def test_weights_too_large_for_half_precision_are_not_saved(
    tmp_path: Path, tiny_tokenizer: Tokenizer, refused: Refused
) -> None:
    model = random_gpt(TINY)
    with torch.no_grad():
        model.norm_f.weight[0] = 1e6
    with refused(CheckpointError, "torch.float16", "norm_f.weight"):
        save_checkpoint(tmp_path / "out", model, tiny_tokenizer, torch.float16)
    assert not (tmp_path / "out").exists()
    save_checkpoint(tmp_path / "out", model, tiny_tokenizer, torch.bfloat16)


def test_a_file_in_place_of_the_folder_is_refused(
    tmp_path: Path, tiny_gpt: GPT, tiny_tokenizer: Tokenizer, refused: Refused
) -> None:
    (tmp_path / "out").write_text("mine")
    with refused(CheckpointError, tmp_path / "out"):
        save_checkpoint(tmp_path / "out", tiny_gpt, tiny_tokenizer)
    assert (tmp_path / "out").read_text() == "mine"
