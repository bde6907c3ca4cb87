"""A budget file means what it says, and one that makes no sense is refused with the key and the value."""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import jsonschema
import pytest
import yaml

from edgegpt.budget.budget import Board, Budget, Figure, limit_names
from edgegpt.errors import ConfigError

Refused = Callable[..., AbstractContextManager[None]]
SHIPPED = sorted((Path(__file__).parents[1] / "configs" / "budgets").glob("*.yaml"))
BOARDS = [path for path in SHIPPED if path.stem != "ci"]
FIGURE = "basis: published, source: s"


def read(folder: Path, text: str) -> Budget:
    path = folder / "budget.yaml"
    path.write_text(text)
    return Budget.from_yaml(path)


# What a budget says


def test_every_limit_has_a_name_of_its_own(tmp_path: Path) -> None:
    budget = read(
        tmp_path,
        "name: all\nparameters: 5e6\nartifact_mb: 8\nkv_cache_mb: 2\npeak_rss_mb: 180\nload_ms: 900\n"
        "ttft_ms: {prompt_tokens: 8, p50: 20, p99: 40}\ntoken_ms: {p50: 2, p99: 4, max: 9}\njitter: 1.4\n"
        "idle_cpu_percent: 3\nrss_slope_kb_per_1000: 100\naccuracy: {path: a.jsonl, minimum: 0.9}\n",
    )
    assert budget.limits() == {
        "parameters": 5_000_000,
        "artifact_mb": 8,
        "kv_cache_mb": 2,
        "peak_rss_mb": 180,
        "load_ms": 900,
        "ttft_ms.p50": 20,
        "ttft_ms.p99": 40,
        "token_ms.p50": 2,
        "token_ms.p99": 4,
        "token_ms.max": 9,
        "jitter": 1.4,
        "idle_cpu_percent": 3,
        "rss_slope_kb_per_1000": 100,
        "accuracy": 0.9,
    }
    assert limit_names() == list(budget.limits())


@pytest.mark.parametrize("limit", ["load_ms: 900", "jitter: 1.4", "ttft_ms: {p99: 40}", "token_ms: {max: 9}"])
def test_one_limit_alone_makes_a_budget(tmp_path: Path, limit: str) -> None:
    assert len(read(tmp_path, f"name: x\n{limit}").limits()) == 1


def test_the_path_of_examples_is_relative_to_the_budget_file(tmp_path: Path) -> None:
    budget = read(tmp_path, "name: x\naccuracy: {path: data/a.jsonl, minimum: 0.9}")
    assert budget.accuracy is not None
    assert Path(budget.accuracy.path) == tmp_path / "data" / "a.jsonl"


# What is refused


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("token_ms: {p50: 4, p99: 2}", "token_ms", 4.0),
        ("token_ms: {p99: 4, max: 3}", "p99", 3.0),
        ("token_ms: {p50: 4, max: 3}", "p50", 4.0),
        ("ttft_ms: {p50: 40, p99: 20}", "ttft_ms", 40.0),
        ("artifact_mb: 0", "artifact_mb", 0),
        ("load_ms: -3", "load_ms", -3),
        ("load_ms: .inf", "load_ms", "inf"),
        ("load_ms: .nan", "load_ms", "nan"),
        ("load_ms: true", "load_ms", True),
        ("load_ms: 20 ms", "load_ms", "'20 ms'"),
        ("token_ms: {p50: 4ms}", "token_ms.p50", "'4ms'"),
        ("parameters: 5M", "parameters", "'5M'"),
        ("parameters: 5.5", "parameters", 5.5),
        ("threads: two", "threads", "'two'"),
        ("load_ms: soon", "load_ms", "'soon'"),
        ("ttft_ms: 20", "ttft_ms", 20),
        ("board: Pi 5", "board", "'Pi 5'"),
        ("board: {description: b, memory_mb: 8}", "board.memory_mb", 8),
        ("parameter: 3", "'parameter'", "'parameters'"),
        ("token_us: 900", "'token_us'", "'token_ms'"),
        ("token_ms: {p5O: 3}", "'token_ms.p5O'", "'p50'"),
        ("ttft_ms: {prompt_tokens: 8}", "ttft_ms", "p99"),
        ("load_ms: [[[a, b, c], [d, e, f], [g, h, i]], [[j, k, l], [m, n, o]]]", "load_ms", "[[['a', 'b'"),
        ("name: ''\nload_ms: 3", "name", "''"),
        ("threads: 2", "limit", ""),
        ("load_ms: 3\nthreads: 0", "threads", 0),
        ("jitter: 0.9", "jitter", 0.9),
        ("accuracy: {path: a.txt, minimum: 0.5}", "accuracy.path", "'a.txt'"),
        ("accuracy: {path: a.jsonl, minimum: 97}", "accuracy.minimum", 97),
        ("accuracy: {path: a.jsonl}", "'accuracy.minimum'", ""),
        (
            f"load_ms: 3\nthreads: 8\nboard: {{description: b, cores: {{value: 4, {FIGURE}}}}}",
            "threads",
            "8 and 4",
        ),
        (
            f"peak_rss_mb: 8e6\nboard: {{description: b, memory_mb: {{value: 2147, {FIGURE}}}}}",
            "peak_rss_mb",
            8e6,
        ),
        (
            "load_ms: 3\nboard: {description: b, memory_mb: {value: 2147, basis: guessed, source: s}}",
            "board.memory_mb.basis",
            "'guessed'",
        ),
        (
            "load_ms: 3\nboard: {description: b, memory_mb: {value: 2147, basis: measured}}",
            "'board.memory_mb.source'",
            "",
        ),
        ("load_ms: 3\nboard: {description: b, never_measured: [load]}", "'load'", "'load_ms'"),
        ("load_ms: 3\nload_ms: 4", "line 3", "'load_ms'"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_with_the_key_and_the_value(
    tmp_path: Path, refused: Refused, text: str, key: str, value: object
) -> None:
    with refused(ConfigError, "budget.yaml", key, value):
        read(tmp_path, text if text.startswith("name:") else f"name: x\n{text}")


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"name: x\nload_ms: {list(range(2000))}")
    assert len(str(caught.value)) < 400


def test_anything_but_a_text_file_is_refused_at_once(tmp_path: Path, refused: Refused) -> None:
    pipe, loop, binary = tmp_path / "pipe.yaml", tmp_path / "loop.yaml", tmp_path / "binary.yaml"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    binary.write_bytes(bytes(range(256)))
    for path in (pipe, Path("/dev/zero"), loop, binary, tmp_path):
        with refused(ConfigError, path):
            Budget.from_yaml(path)


# The schema for editors

SCHEMA = json.loads((Path(__file__).parents[1] / "configs/schemas/budget.schema.json").read_text())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_schema_accepts_what_ships(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), SCHEMA)


@pytest.mark.parametrize(
    "limits",
    [
        {"jitter": 0.9},
        {"accuracy": {"path": "a.jsonl", "minimum": 97}},
        {"accuracy": {"path": "a.jsonl", "minimum": 0}},
        {"load_ms": 0},
        {"parameters": 0},
        {"load_ms": "20 ms"},
        {"load_ms": 3, "threads": 0},
        {"token_ms": 2.0},
        {"token_us": 900},
        {"load_ms": [3]},
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_tools_refuse(tmp_path: Path, limits: dict[str, object]) -> None:
    document = {"name": "x", **limits}
    with pytest.raises(ConfigError):
        read(tmp_path, yaml.safe_dump(document))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("name", ["budget", "model", "target", "training"])
def test_no_schema_has_a_keyword_that_json_schema_does_not_have(name: str) -> None:
    """Validators skip an unknown keyword, and with it the bound that it stands for."""
    keywords = {"type", "anyOf", "$ref", "enum", "const", "items", "prefixItems", "properties", "required"}
    keywords |= {"additionalProperties", "title", "description", "default", "$schema", "$defs"}
    keywords |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"}
    keywords |= {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}

    def check(schema: object) -> None:
        if not isinstance(schema, dict):
            return
        assert schema.keys() <= keywords, schema
        for key in ("properties", "$defs"):
            for part in schema.get(key, {}).values():
                check(part)
        for part in [*schema.get("anyOf", []), *schema.get("prefixItems", [])]:
            check(part)
        check(schema.get("items"))
        check(schema.get("additionalProperties"))

    check(json.loads((Path(__file__).parents[1] / f"configs/schemas/{name}.schema.json").read_text()))


# What ships


def test_the_five_budgets_ship() -> None:
    names = {"raspberry-pi-4", "raspberry-pi-5", "jetson-orin-nano", "x86-mini-pc", "ci"}
    assert {path.stem for path in SHIPPED} == names
    assert {Budget.from_yaml(path).name for path in SHIPPED} == names


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


def test_ci_is_no_laxer_than_it_has_been() -> None:
    limits = Budget.from_yaml(SHIPPED[0].with_name("ci.yaml")).limits()
    before = {
        "parameters": 3_000_000,
        "artifact_mb": 10,
        "kv_cache_mb": 2.5,
        "peak_rss_mb": 160,
        "load_ms": 800,
        "ttft_ms.p50": 6,
        "ttft_ms.p99": 15,
        "token_ms.p50": 1.5,
        "token_ms.p99": 4,
    }
    assert all(limits[name] <= limit for name, limit in before.items())
