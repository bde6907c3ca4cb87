"""A budget file means what it says, and one that makes no sense is refused with the key and the value."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import Refused

from edgegpt.budget.budget import Board, Budget, Figure, limit_names
from edgegpt.errors import ConfigError

CONFIGS = Path(__file__).parents[1] / "configs"
SHIPPED = sorted((CONFIGS / "budgets").glob("*.yaml"))
BOARDS = [path for path in SHIPPED if path.stem != "ci"]
SCHEMA = json.loads((CONFIGS / "schemas/budget.schema.json").read_text())
BOARD = "load_ms: 3\nboard: {description: b, "


def read(folder: Path, text: str) -> Budget:
    path = folder / "budget.yaml"
    path.write_text(text if text.startswith("name:") else f"name: x\n{text}")
    return Budget.from_yaml(path)


def test_every_limit_has_a_name_of_its_own(tmp_path: Path) -> None:
    budget = read(
        tmp_path,
        "parameters: 5e6\nartifact_mb: 8\nkv_cache_mb: 2\npeak_rss_mb: 180\nload_ms: 900\n"
        "ttft_ms: {prompt_tokens: 8, p50: 20, p99: 40}\ntoken_ms: {p50: 2, p99: 4, max: 9}\njitter: 1.4\n"
        "idle_cpu_percent: 3\nrss_slope_kb_per_1000: 100\naccuracy: {path: a.jsonl, minimum: 0.9}\n",
    )
    names = "parameters artifact_mb kv_cache_mb peak_rss_mb load_ms ttft_ms.p50 ttft_ms.p99 token_ms.p50 "
    names += "token_ms.p99 token_ms.max jitter idle_cpu_percent rss_slope_kb_per_1000 accuracy"
    assert list(budget.limits()) == limit_names() == names.split()
    assert list(budget.limits().values()) == [5e6, 8, 2, 180, 900, 20, 40, 2, 4, 9, 1.4, 3, 100, 0.9]


@pytest.mark.parametrize("limit", ["load_ms: 900", "jitter: 1.4", "ttft_ms: {p99: 40}", "token_ms: {max: 9}"])
def test_one_limit_alone_makes_a_budget(tmp_path: Path, limit: str) -> None:
    assert len(read(tmp_path, limit).limits()) == 1


def test_the_path_of_examples_is_relative_to_the_budget_file(tmp_path: Path) -> None:
    budget = read(tmp_path, "accuracy: {path: data/a.jsonl, minimum: 0.9}")
    assert budget.accuracy is not None
    assert Path(budget.accuracy.path) == tmp_path / "data" / "a.jsonl"


# What is refused


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("artifact_mb: 0", "artifact_mb", 0),
        ("parameters: 0", "parameters", 0),
        ("load_ms: -3", "load_ms", -3),
        ("load_ms: true", "load_ms", True),
        ("load_ms: 20 ms", "load_ms", "'20 ms'"),
        ("load_ms: [3]", "load_ms", 3),
        ("token_ms: {p50: 4ms}", "token_ms.p50", "'4ms'"),
        ("parameters: 5M", "parameters", "'5M'"),
        ("parameters: 5.5", "parameters", 5.5),
        ("load_ms: 3\nthreads: two", "threads", "'two'"),
        ("load_ms: 3\nthreads: 0", "threads", 0),
        ("ttft_ms: 20", "ttft_ms", 20),
        ("token_ms: 2.0", "token_ms", 2.0),
        ("load_ms: 3\nboard: Pi 5", "board", "'Pi 5'"),
        (BOARD + "memory_mb: 8}", "board.memory_mb", 8),
        ("parameter: 3", "'parameter'", "'parameters'"),
        ("token_us: 900", "'token_us'", "'token_ms'"),
        ("token_ms: {p5O: 3}", "'token_ms.p5O'", "'p50'"),
        ("name: ''\nload_ms: 3", "name", "''"),
        ("jitter: 0.9", "jitter", 0.9),
        ("accuracy: {path: a.jsonl, minimum: 97}", "accuracy.minimum", 97),
        ("accuracy: {path: a.jsonl, minimum: 0}", "accuracy.minimum", 0),
        ("accuracy: {path: a.jsonl}", "'accuracy.minimum'", ""),
        (BOARD + "cores: {value: 4, basis: guessed, source: s}}", "board.cores.basis", "'guessed'"),
        (BOARD + "cores: {value: 4, basis: measured}}", "'board.cores.source'", ""),
    ],
)
def test_the_tools_and_the_schema_for_editors_refuse_the_same(
    tmp_path: Path, refused: Refused, text: str, key: str, value: object
) -> None:
    with refused(ConfigError, "budget.yaml", key, value):
        read(tmp_path, text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load((tmp_path / "budget.yaml").read_text()), SCHEMA)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("token_ms: {p50: 4, p99: 2}", "token_ms", 4.0),
        ("token_ms: {p99: 4, max: 3}", "p99", 3.0),
        ("token_ms: {p50: 4, max: 3}", "p50", 4.0),
        ("ttft_ms: {p50: 40, p99: 20}", "ttft_ms", 40.0),
        ("load_ms: .inf", "load_ms", "inf"),
        ("load_ms: .nan", "load_ms", "nan"),
        ("ttft_ms: {prompt_tokens: 8}", "ttft_ms", "p99"),
        ("load_ms: [[[a, b, c], [d, e, f], [g, h, i]], [[j, k, l], [m, n, o]]]", "load_ms", "[[['a', 'b'"),
        ("threads: 2", "limit", ""),
        ("accuracy: {path: a.txt, minimum: 0.5}", "accuracy.path", "'a.txt'"),
        (f"threads: 8\n{BOARD}cores: {{value: 4, basis: published, source: s}}}}", "threads", "8 and 4"),
        (
            f"peak_rss_mb: 8e6\n{BOARD}memory_mb: {{value: 2, basis: measured, source: s}}}}",
            "peak_rss_mb",
            8e6,
        ),
        (BOARD + "never_measured: [load]}", "'load'", "'load_ms'"),
        ("load_ms: 3\nload_ms: 4", "line 3", "'load_ms'"),
    ],
)
def test_what_a_schema_cannot_state_is_refused_with_the_key_and_the_value(
    tmp_path: Path, refused: Refused, text: str, key: str, value: object
) -> None:
    with refused(ConfigError, "budget.yaml", key, value):
        read(tmp_path, text)


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"load_ms: {list(range(2000))}")
    assert len(str(caught.value)) < 400


def test_anything_but_a_text_file_is_refused_at_once(tmp_path: Path, refused: Refused) -> None:
    pipe, loop, binary = tmp_path / "pipe.yaml", tmp_path / "loop.yaml", tmp_path / "binary.yaml"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    binary.write_bytes(bytes(range(256)))
    for path in (pipe, Path("/dev/zero"), loop, binary, tmp_path):
        with refused(ConfigError, path):
            Budget.from_yaml(path)


@pytest.mark.parametrize("name", ["budget", "model", "target", "training"])
def test_no_schema_has_a_keyword_that_validators_skip(name: str) -> None:
    """They skip an unknown keyword, and with it the bound that it stands for."""

    def parts(schema: Any) -> Iterator[dict[str, Any]]:
        if not isinstance(schema, dict):
            return
        yield schema
        inside = [part for key in ("properties", "$defs") for part in schema.get(key, {}).values()]
        inside += [part for key in ("anyOf", "prefixItems") for part in schema.get(key, [])]
        for part in (*inside, schema.get("items"), schema.get("additionalProperties")):
            yield from parts(part)

    known = {
        *jsonschema.Draft202012Validator.VALIDATORS,
        "title",
        "description",
        "default",
        "$schema",
        "$defs",
    }
    for part in parts(json.loads((CONFIGS / f"schemas/{name}.schema.json").read_text())):
        assert part.keys() <= known, part


# What ships


def test_the_five_budgets_ship_and_the_schema_accepts_them() -> None:
    names = {"raspberry-pi-4", "raspberry-pi-5", "jetson-orin-nano", "x86-mini-pc", "ci"}
    assert {path.stem for path in SHIPPED} == {Budget.from_yaml(path).name for path in SHIPPED} == names
    for path in SHIPPED:
        jsonschema.validate(yaml.safe_load(path.read_text()), SCHEMA)


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_each_board_names_the_source_of_its_figures_and_what_was_never_measured(path: Path) -> None:
    budget = Budget.from_yaml(path)
    assert isinstance(budget.board, Board)
    for name in ("cores", "clock_ghz", "memory_mb", "memory_bandwidth_gb_s"):
        figure = getattr(budget.board, name)
        assert isinstance(figure, Figure)
        assert figure.source
    # What follows from the file alone is known without the board; all else would have to be measured there.
    known = {"parameters", "artifact_mb", "kv_cache_mb"}
    assert {name.partition(".")[0] for name in budget.limits()} - known == set(budget.board.never_measured)


def test_ci_is_no_laxer_than_it_has_been(tmp_path: Path) -> None:
    limits = Budget.from_yaml(CONFIGS / "budgets/ci.yaml").limits()
    before = read(
        tmp_path,
        "parameters: 3e6\nartifact_mb: 10\nkv_cache_mb: 2.5\npeak_rss_mb: 160\nload_ms: 800\n"
        "ttft_ms: {p50: 6, p99: 15}\ntoken_ms: {p50: 1.5, p99: 4}\n",
    )
    assert all(limits[name] <= limit for name, limit in before.limits().items())
