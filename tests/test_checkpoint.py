"""edgegpt.model.checkpoint: a folder is saved and loaded whole, and a damaged one is refused."""

import hashlib
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY, random_gpt
from safetensors.torch import load_file, save_file

from edgegpt.errors import CheckpointError, ConfigError, TokenizerError
from edgegpt.model import GPT, WEIGHTS, checkpoint, load_checkpoint, save_checkpoint
from edgegpt.model.checkpoint import CONFIG, TOKENIZER
from edgegpt.tokenizer import Tokenizer


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replace tensors, or with None remove them."""
    state = load_file(folder / WEIGHTS) | {
        name.replace("__", "."): t for name, t in changes.items() if t is not None
    }
    for name in (name.replace("__", ".") for name, t in changes.items() if t is None):
        del state[name]
    save_file(state, folder / WEIGHTS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_is_loaded(
    tmp_path: Path, tiny_tokenizer: Tokenizer, dtype: torch.dtype, tied: bool
) -> None:
    model = random_gpt(replace(TINY, tie_embeddings=tied, qkv_bias=tied))
    save_checkpoint(tmp_path, model, tiny_tokenizer, dtype)
    loaded = load_checkpoint(tmp_path)
    assert loaded.config == model.config
    assert loaded.tokenizer.to_json() == tiny_tokenizer.to_json()
    assert loaded.weights_sha256 == hashlib.sha256((tmp_path / WEIGHTS).read_bytes()).hexdigest()
    for name, parameter in loaded.model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, model.get_parameter(name).to(dtype).float()), name
    assert not loaded.model.training
    ids = torch.arange(20)[None]
    if dtype == torch.float32:
        assert torch.equal(loaded.model(ids), model(ids))


def test_half_precision_halves_the_file(tmp_path: Path, tiny_gpt: GPT, tiny_tokenizer: Tokenizer) -> None:
    for dtype in (torch.float32, torch.float16):
        save_checkpoint(tmp_path / str(dtype), tiny_gpt, tiny_tokenizer, dtype)
    sizes = [(tmp_path / str(dtype) / WEIGHTS).stat().st_size for dtype in (torch.float32, torch.float16)]
    assert sizes[1] < 0.6 * sizes[0]


def test_a_folder_holds_the_three_files_and_no_more(tiny_checkpoint: Path) -> None:
    assert {path.name for path in tiny_checkpoint.iterdir()} == {CONFIG, WEIGHTS, TOKENIZER}


def test_saving_leaves_the_model_as_it_was(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    model = random_gpt(TINY).train()
    before = [p.clone() for p in model.parameters()]
    save_checkpoint(tmp_path, model, tiny_tokenizer, torch.float16)
    assert model.training
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


# What a user may hand us instead


def test_every_difference_between_weights_and_config_is_listed_in_one_error(
    folder: Path, refused: Any
) -> None:
    rewrite(
        folder,
        wte__weight=torch.zeros(10, 32),
        norm_f__bias=None,
        blocks__0__attn__qkv__bias=torch.zeros(96),
        blocks__1__mlp__fc__bias=torch.zeros(128, dtype=torch.int32),
        head__weight=torch.full((TINY.vocab_size, TINY.n_embd), float("nan")),
    )
    with refused(
        CheckpointError,
        folder / WEIGHTS,
        *("wte.weight", [10, 32], [272, 32]),
        "norm_f.bias",
        "blocks.0.attn.qkv.bias",
        *("blocks.1.mlp.fc.bias", "torch.int32"),
        *("head.weight", "NaN"),
    ):
        load_checkpoint(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_number_that_is_not_finite_is_refused(folder: Path, value: float, refused: Any) -> None:
    weight = load_file(folder / WEIGHTS)["blocks.0.mlp.fc.weight"]
    weight[3, 4] = value
    rewrite(folder, blocks__0__mlp__fc__weight=weight)
    with refused(CheckpointError, folder, "blocks.0.mlp.fc.weight"):
        load_checkpoint(folder)


def test_a_number_beyond_float32_is_refused(folder: Path, refused: Any) -> None:
    weight = load_file(folder / WEIGHTS)["norm_f.bias"].double()
    weight[0] = 1e300
    rewrite(folder, norm_f__bias=weight)
    with refused(CheckpointError, "norm_f.bias", "float32"):
        load_checkpoint(folder)


def test_any_floating_point_type_is_read_or_named(folder: Path, refused: Any) -> None:
    zeros = torch.zeros(32)
    rewrite(folder, norm_f__bias=zeros.to(torch.float8_e4m3fn), norm_f__weight=zeros.double())
    assert load_checkpoint(folder).model.norm_f.weight.dtype == torch.float32
    packed = torch.zeros(32, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    rewrite(folder, norm_f__bias=packed)
    with refused(CheckpointError, "norm_f.bias", "torch.float4_e2m1fn_x2"):
        load_checkpoint(folder)


def test_a_config_of_a_million_layers_is_refused_at_once(folder: Path, refused: Any) -> None:
    config = (folder / CONFIG).read_text().replace("n_layer: 2", "n_layer: 1000000000")
    (folder / CONFIG).write_text(config)
    with refused(ConfigError, "n_layer", 1024, 1000000000):
        load_checkpoint(folder)


def test_many_differences_are_counted(folder: Path) -> None:
    config = (folder / CONFIG).read_text().replace("n_layer: 2", "n_layer: 1000")
    (folder / CONFIG).write_text(config)
    with pytest.raises(
        CheckpointError, match=r"blocks\.2\.norm_1\.weight is missing; .* and \d{5} more$"
    ) as error:
        load_checkpoint(folder)
    assert len(str(error.value)) < 1000


def test_weights_that_may_not_be_read_are_not_called_truncated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Any
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint, "load_file", denied)
    with refused(CheckpointError, folder / WEIGHTS, "Permission denied"):
        load_checkpoint(folder)


def test_a_head_in_the_file_of_a_tied_model_is_refused(folder: Path, refused: Any) -> None:
    config = (folder / CONFIG).read_text().replace("tie_embeddings: false", "tie_embeddings: true")
    (folder / CONFIG).write_text(config)
    with refused(CheckpointError, "head.weight"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, TOKENIZER])
def test_a_missing_file_is_named(folder: Path, name: str, refused: Any) -> None:
    (folder / name).unlink()
    with refused(CheckpointError, folder, name):
        load_checkpoint(folder)


def test_all_missing_files_are_named_at_once(tmp_path: Path, refused: Any) -> None:
    with refused(CheckpointError, CONFIG, WEIGHTS, TOKENIZER):
        load_checkpoint(tmp_path)


def test_a_missing_folder_and_a_file_in_its_place_are_refused(folder: Path, refused: Any) -> None:
    with refused(CheckpointError, folder / "none"):
        load_checkpoint(folder / "none")
    with refused(CheckpointError, folder / WEIGHTS, "folder"):
        load_checkpoint(folder / WEIGHTS)


@pytest.mark.parametrize("keep", [0, 4, 100, 5000, -1])
def test_truncated_weights_are_refused(folder: Path, keep: int, refused: Any) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])
    with refused(CheckpointError, folder / WEIGHTS):
        load_checkpoint(folder)


def test_a_tokenizer_larger_than_the_model_is_refused_with_both_numbers(
    tmp_path: Path, tiny_tokenizer: Tokenizer, refused: Any
) -> None:
    small = random_gpt(replace(TINY, vocab_size=260))
    save_checkpoint(tmp_path, small, tiny_tokenizer)
    with refused(CheckpointError, 270, 260):
        load_checkpoint(tmp_path)


def test_a_bad_config_or_tokenizer_is_named_with_its_file(folder: Path, refused: Any) -> None:
    good = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(good + "n_heads: 2\n")
    with refused(ConfigError, CONFIG, "'n_heads'", "'n_head'"):
        load_checkpoint(folder)
    (folder / CONFIG).write_text(good)
    (folder / TOKENIZER).write_text("{}")
    with refused(TokenizerError, folder / TOKENIZER):
        load_checkpoint(folder)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_pickle_in_place_of_the_weights_runs_no_code(
    folder: Path, tmp_path: Path, how: str, refused: Any
) -> None:
    sprung = tmp_path / "sprung"
    if how == "pickle":
        (folder / WEIGHTS).write_bytes(pickle.dumps(Trap(sprung)))
    else:
        torch.save({"wte.weight": Trap(sprung)}, folder / WEIGHTS)
    with refused(CheckpointError, folder / WEIGHTS):
        load_checkpoint(folder)
    assert not sprung.exists()


# What may happen while saving


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_the_old_checkpoint_whole(
    folder: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def half(_: object, path: Path, **__: object) -> None:
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(checkpoint, "save_file", half)
    other = replace(TINY, n_layer=1)
    with pytest.raises(CheckpointError if isinstance(error, OSError) else KeyboardInterrupt) as raised:
        save_checkpoint(folder, random_gpt(other, seed=1), tiny_tokenizer)
    if isinstance(error, OSError):
        assert str(folder) in str(raised.value)
        assert "No space left" in str(raised.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    load_checkpoint(folder)


def test_weights_too_large_for_half_precision_are_not_saved(
    tmp_path: Path, tiny_tokenizer: Tokenizer, refused: Any
) -> None:
    model = random_gpt(TINY)
    with torch.no_grad():
        model.norm_f.weight[0] = 1e6
    with refused(CheckpointError, "torch.float16", "norm_f.weight"):
        save_checkpoint(tmp_path / "out", model, tiny_tokenizer, torch.float16)
    assert not (tmp_path / "out").exists()
    save_checkpoint(tmp_path / "out", model, tiny_tokenizer, torch.bfloat16)


def test_a_file_in_place_of_the_folder_is_refused(
    tmp_path: Path, tiny_gpt: GPT, tiny_tokenizer: Tokenizer, refused: Any
) -> None:
    (tmp_path / "out").write_text("mine")
    with refused(CheckpointError, tmp_path / "out"):
        save_checkpoint(tmp_path / "out", tiny_gpt, tiny_tokenizer)
    assert (tmp_path / "out").read_text() == "mine"
