"""edgegpt.budget: a budget file means what it says, and one that makes no sense is refused in a sentence."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from edgegpt.budget.budget import Board, Budget, Figure, limit_names
from edgegpt.errors import ConfigError

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


def test_examples_are_found_beside_the_budget_file(tmp_path: Path) -> None:
    budget = read(tmp_path, "name: x\naccuracy: {path: data/a.jsonl, minimum: 0.9}")
    assert budget.accuracy is not None
    assert Path(budget.accuracy.path) == tmp_path / "data" / "a.jsonl"


# What is refused


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("token_ms: {p50: 4, p99: 2}", "token_ms: p50 must not be above p99, got 4.0 and 2.0"),
        ("token_ms: {p99: 4, max: 3}", "token_ms: p99 must not be above max, got 4.0 and 3.0"),
        ("token_ms: {p50: 4, max: 3}", "token_ms: p50 must not be above max, got 4.0 and 3.0"),
        ("ttft_ms: {p50: 40, p99: 20}", "ttft_ms: p50 must not be above p99, got 40.0 and 20.0"),
        ("artifact_mb: 0", "artifact_mb must be greater than 0, got 0"),
        ("load_ms: -3", "load_ms must be greater than 0, got -3"),
        ("load_ms: .inf", "load_ms must be a finite number, got inf"),
        ("load_ms: .nan", "load_ms must be a finite number, got nan"),
        ("load_ms: true", "load_ms must be a number, got True"),
        ("load_ms: 20 ms", "load_ms: must be a number alone, its unit is in the key's name, got '20 ms'"),
        ("token_ms: {p50: 4ms}", "token_ms.p50: must be a number alone, its unit is in the key's name"),
        ("parameters: 5M", "parameters: must be a number alone, its unit is in the key's name, got '5M'"),
        ("parameters: 5.5", "parameters must be a whole number, got 5.5"),
        ("threads: two", "threads must be a whole number, got 'two'"),
        ("load_ms: soon", "load_ms must be a number, got 'soon'"),
        ("ttft_ms: 20", "ttft_ms must be `key: value` lines"),
        ("board: Pi 5", "board must be `key: value` lines, got 'Pi 5'"),
        (
            "board: {description: b, memory_mb: 8}",
            "board.memory_mb must be `key: value` lines, got 8",
        ),
        ("token_ms: 2.0", "token_ms must be `key: value` lines, got 2.0"),
        ("parameter: 3", "unknown key 'parameter', did you mean 'parameters'?"),
        ("token_us: 900", "unknown key 'token_us', did you mean 'token_ms'?"),
        ("token_ms: {p5O: 3}", "unknown key 'token_ms.p5O', did you mean 'p50'?"),
        ("ttft_ms: {prompt_tokens: 8}", "ttft_ms: it has no limit; give at least one of p50, p99"),
        (
            "load_ms: [[[a, b, c], [d, e, f], [g, h, i]], [[j, k, l], [m, n, o], [p, q, r]]]",
            "load_ms must be a number, got [[[",
        ),
        ("name: ''\nload_ms: 3", "name must have at least 1 character, got ''"),
        ("threads: 2", "it has no limit; give at least one, such as `peak_rss_mb: 180`"),
        ("load_ms: 3\nthreads: 0", "threads must be greater than or equal to 1, got 0"),
        ("jitter: 0.9", "jitter must be greater than or equal to 1, got 0.9"),
        ("accuracy: {path: a.txt, minimum: 0.5}", "accuracy.path: must end in .jsonl, got 'a.txt'"),
        (
            "accuracy: {path: a.jsonl, minimum: 97}",
            "accuracy.minimum must be less than or equal to 1, got 97",
        ),
        ("accuracy: {path: a.jsonl}", "the key 'accuracy.minimum' is missing"),
        (
            f"load_ms: 3\nthreads: 8\nboard: {{description: b, cores: {{value: 4, {FIGURE}}}}}",
            "threads must not be above the board's cores, got 8 and 4",
        ),
        (
            f"peak_rss_mb: 8e6\nboard: {{description: b, memory_mb: {{value: 2147, {FIGURE}}}}}",
            "peak_rss_mb must not be above the board's memory_mb, got 8000000.0 and 2147.0",
        ),
        (
            "load_ms: 3\nboard: {description: b, memory_mb: {value: 2147, basis: guessed, source: s}}",
            "board.memory_mb.basis must be 'published' or 'measured', got 'guessed'",
        ),
        (
            "load_ms: 3\nboard: {description: b, memory_mb: {value: 2147, basis: measured}}",
            "the key 'board.memory_mb.source' is missing",
        ),
        (
            "load_ms: 3\nboard: {description: b, never_measured: [load]}",
            "board.never_measured names 'load', which is no limit of this budget, did you mean 'load_ms'?",
        ),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        read(tmp_path, text if text.startswith("name:") else f"name: x\n{text}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "budget.yaml" in str(caught.value)


def test_what_is_no_file_of_text_is_refused_at_once(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(ConfigError) as caught:
            Budget.from_yaml(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    pipe, loop, binary = tmp_path / "pipe.yaml", tmp_path / "loop.yaml", tmp_path / "binary.yaml"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    binary.write_bytes(bytes(range(256)))
    assert "pipe.yaml is a pipe or a device, expected a YAML file; save it as a file" in refused(pipe)
    assert "/dev/zero is a pipe or a device" in refused(Path("/dev/zero"))
    assert "loop.yaml cannot be read: Too many levels of symbolic links" in refused(loop)
    assert "binary.yaml is not text, expected YAML" in refused(binary)
    assert "is a folder, expected a YAML file" in refused(tmp_path)


def test_a_limit_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 3: .*the key 'load_ms' stands there twice"):
        read(tmp_path, "name: x\nload_ms: 3\nload_ms: 4")


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
def test_each_board_says_where_its_figures_are_from_and_what_nobody_measured(path: Path) -> None:
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
