"""Bytes of the weights that a decode step reads, counted."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from helpers.tiny_files import graph, metadata, write_file

from edgegpt import contract
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.quantization import recipe, weight_bytes_per_token
from edgegpt.runtime.onnx_file import read_file


def test_a_token_reads_all_weights_but_the_other_positions() -> None:
    config = ModelConfig(vocab_size=100, block_size=16, n_layer=2, n_head=2, n_embd=32, tie_embeddings=True)
    all_weights = 4 * (32_192 - 100 * 32)  # 32,192 with an untied head
    assert weight_bytes_per_token(config, recipe(config, "fp32")) == all_weights - 4 * 15 * 32


def test_an_untied_head_leaves_the_embedding_unread_but_for_a_row() -> None:
    config = ModelConfig(vocab_size=100, block_size=16, n_layer=2, n_head=2, n_embd=32, tie_embeddings=False)
    unread = 4 * (15 * 32 + 99 * 32)
    assert weight_bytes_per_token(config, recipe(config, "fp32")) == 4 * 32_192 - unread


def test_the_facts_of_a_file_are_its_metadata(file: Path) -> None:
    facts = read_file(file)
    assert (facts.target, facts.precision, facts.context) == ("engine", "fp32", 48)
    assert facts.bytes == file.stat().st_size
    assert 0 < facts.weight_bytes_per_token < 4 * facts.parameters


def test_a_recipe_in_the_file_counts(
    tmp_path: Path, refused: Callable[..., AbstractContextManager[None]]
) -> None:
    entries = metadata()
    config = ModelConfig.parse(entries[contract.META_CONFIG], "tiny")
    eight = recipe(config, "int8")
    quantised = {**entries, contract.META_RECIPE: json.dumps({"bits": eight})}
    facts = read_file(write_file(tmp_path / "int8.onnx", graph(), quantised))
    assert facts.weight_bytes_per_token == weight_bytes_per_token(config, eight)
    assert facts.weight_bytes_per_token < weight_bytes_per_token(config, recipe(config, "fp32"))
    foreign = {**entries, contract.META_RECIPE: '{"bits": {"wte.weight": 8}}'}
    with refused(ArtifactError, "foreign.onnx"):
        read_file(write_file(tmp_path / "foreign.onnx", graph(), foreign))
