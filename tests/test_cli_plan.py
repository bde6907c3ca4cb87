"""`edgegpt plan` on a board profile, and what plan, params and profile refuse; no time is judged."""

import json
import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.family import left_after, session, started
from helpers.planning import SMALL, VALUES, planned
from helpers.sample_target import TARGET, profile_file, target_here

from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.errors import BudgetError
from edgegpt.planner.finalists import Finalist, check_finalists
from edgegpt.planner.planner import PlanResult, plan_models

Capture = pytest.CaptureFixture[str]
Plan = Callable[..., tuple[int, dict[str, Any], str]]
NANO = str(Path(__file__).parents[1] / "configs" / "models" / "nano.yaml")
PROFILE = ("--profile", "profile.yaml")


def write_budget(**limits: Any) -> None:
    Path("budget.yaml").write_text(yaml.safe_dump({"name": "hand", **limits}))


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a budget and a profile."""
    monkeypatch.chdir(tmp_path)
    write_budget(**VALUES)
    profile_file(tmp_path)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Plan:
    """`plan("--profile", "profile.yaml")` searches few models; it returns exit code, JSON and errors."""
    monkeypatch.setattr("edgegpt.planner.space_of", lambda **_: SMALL)

    def run(*arguments: str, json_too: bool = True) -> tuple[int, Any, str]:
        capsys.readouterr()
        options = ("--budget", "budget.yaml", "--workers", "1", *arguments)
        code = main(["plan", *options, *(["--json"] if json_too else [])])
        output = capsys.readouterr()
        return code, json.loads(output.out) if json_too else output.out, output.err

    return run


@pytest.mark.parametrize("option", ["--profile", "--target"])
def test_a_plan_writes_a_model_that_params_can_read(plan: Plan, option: str) -> None:
    code, out, _ = plan(option, "profile.yaml", "--out", "model.yaml", json_too=False)
    assert code == 0
    assert TARGET.name in out
    assert ModelConfig.from_yaml("model.yaml").tie_embeddings
    assert "--precision" in Path("model.yaml").read_text()
    assert main(["params", "model.yaml"]) == 0


@pytest.mark.parametrize("profile", [PROFILE, ()])
def test_a_plan_as_json(plan: Plan, profile: tuple[str, ...]) -> None:
    code, data, _ = plan(*profile)
    assert code == 0
    assert data["target"] == (TARGET.name if profile else None)
    assert data["chosen"] == data["best"][0]
    assert set(data["chosen"]) == {"config", "precision", "expected_loss", "predicted"}
    assert ("token_ms.p50" in data["limits"]) == bool(profile)
    assert data["not_planned_for"] == ([] if profile else ["token_ms.p50"])
    assert (data["finalists"], data["slower_than_predicted"]) == ([], {})
    assert bool(data["caveats"]) == bool(profile)
    assert 0 < data["models_kept"] <= data["models_seen"]
    assert data["front"]


SCHEMA = "# yaml-language-server: $schema="


@pytest.mark.parametrize(
    ("out", "schemas", "first"),
    [
        ("planned.yaml", "elsewhere", "# Planned by"),
        ("planned.yaml", "configs/schemas", f"{SCHEMA}configs/schemas/model.schema.json"),
        ("configs/models/planned.yaml", "configs/schemas", f"{SCHEMA}../schemas/model.schema.json"),
    ],
)
def test_a_plan_names_the_schema_where_an_editor_finds_it(
    plan: Plan, out: str, schemas: str, first: str
) -> None:
    Path(schemas).mkdir(parents=True)
    Path(schemas, "model.schema.json").touch()
    Path(out).parent.mkdir(exist_ok=True)
    assert plan("--out", out)[0] == 0
    assert Path(out).read_text().startswith(first)


@pytest.mark.slow
def test_finalists_are_built_and_measured_if_the_profile_is_of_this_machine(
    plan: Plan, tmp_path: Path
) -> None:
    profile_file(tmp_path, target_here())
    write_budget(parameters=300_000, artifact_mb=2.0, token_ms={"p50": 1000.0})
    code, data, _ = plan(*PROFILE, "--finalists", "1")
    (finalist,) = data["finalists"]
    measured, predicted = finalist["measured"], finalist["predicted"]
    assert (code, finalist["broken"]) == (0, [])
    assert measured["artifact_mb"] == pytest.approx(predicted["artifact_mb"], rel=0.05)
    assert measured["token_ms.p50"] > 0


@pytest.mark.slow
def test_if_no_finalist_keeps_the_budget_nothing_is_written(plan: Plan, tmp_path: Path) -> None:
    fast = TARGET.calls.step.model_copy(update={"call_us": 0.0, "us_per_layer": 0.0, "node_factor": 0.0})
    calls = TARGET.calls.model_copy(update={"step": fast})
    profile_file(tmp_path, target_here().model_copy(update={"calls": calls}))
    write_budget(token_ms={"p50": 0.01})
    code, _, error = plan(*PROFILE, "--finalists", "1", "--out", "model.yaml")
    assert code == 1
    assert all(value in error for value in ("'hand'", "token_ms.p50", "0.01"))
    assert not Path("model.yaml").exists()


@pytest.mark.parametrize("limits", [{"artifact_mb": 0.001}, {"artifact_mb": 0.001, "parameters": 10}])
def test_an_infeasible_budget_gives_a_way_out_as_json(plan: Plan, limits: dict[str, float]) -> None:
    write_budget(**limits)
    code, data, error = plan()
    assert (code, error) == (1, f"edgegpt: {data['message']}\n")
    assert (data["limits"], data["chosen"]) == (limits, None)
    (way,) = data["nearest"]
    assert way["needs"].keys() == limits.keys()
    write_budget(**limits | way["needs"])
    code, again, _ = plan()
    assert code == 0
    assert way["config"] in [model["config"] for model in again["best"]]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("plan --budget budget.yaml --profile none.yaml", ["none.yaml"]),
        ("plan --budget budget.yaml --profile budget.yaml", ["budget.yaml"]),
        ("plan --budget budget.yaml --precision int2", ["'int2'"]),
        ("plan --budget budget.yaml --ray local --workers 2", ["--ray", "--workers", "local", "2"]),
        ("plan --budget budget.yaml --out model.txt", ["--out", ".yaml"]),
        ("params NANO --precision int8", ["--precision", "--profile"]),
        ("params NANO --profile profile.yaml --precision int2", ["int2"]),
        ("params NANO --profile none.yaml", ["none.yaml"]),
        ("params NANO --profile budget.yaml", ["budget.yaml", "a budget"]),
        ("params NANO --profile profile.yaml --cached-tokens 256", ["cached_tokens", "256"]),
        ("params NANO --profile profile.yaml --capacity 64 --cached-tokens 64", ["cached_tokens", "64"]),
        ("params NANO --profile profile.yaml --capacity 64 --prompt-tokens 64", ["prompt_tokens", "64"]),
        ("params NANO --prompt-tokens 5000", ["prompt_tokens", "256", "5000"]),
        ("profile --out none/new.yaml", ["none"]),
        ("profile --out .", ["--out", ".yaml"]),
        ("profile --out new.yaml --threads 0", ["threads", "0"]),
        ("profile --out new.yaml --threads 4096", ["threads", "4096"]),
        ("profile --out new.yaml --seconds=-1", ["seconds", "-1"]),
        ("profile --out new.yaml --name ''", ["--name", "''"]),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    command_error: Callable[..., str], tmp_path: Path, arguments: str, values: list[str]
) -> None:
    error = command_error(*shlex.split(arguments.replace("NANO", NANO)))
    assert not [value for value in values if value not in error]
    assert {path.name for path in tmp_path.iterdir()} == {"budget.yaml", "profile.yaml"}


# Finalists


def measured(planned: PlanResult, times: float, noise: tuple[str, ...] = ()) -> list[Finalist]:
    """Return the two best, with every time `times` what was predicted."""
    return [
        Finalist(rated, {k: v * (times if "_ms." in k else 1) for k, v in rated.figures.items()}, noise)
        for rated in planned.found.best[:2]
    ]


def no_second_search(slower: Any) -> PlanResult:
    pytest.fail("it searched")


def test_if_all_finalists_are_too_slow_a_second_search_allows_for_that() -> None:
    first = planned(token_ms={"p50": 0.3})
    made: list[dict[str, float]] = []

    def again(slower: Any) -> PlanResult:
        made.append(dict(slower))
        return plan_models(first.budget, SMALL, target=TARGET, slower=slower)

    check = check_finalists(first, lambda plan: measured(plan, 1.5), again)
    assert made == [{"token_ms.p50": pytest.approx(1.5)}]
    assert check.slower == made[0]
    assert len(check.measured) == 4
    assert check.chosen is not None
    assert check.chosen.figures["token_ms.p50"] <= 0.2
    assert check.chosen not in first.found.best[:2]


def test_on_a_busy_machine_there_is_no_second_search(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a neighbour that doubles every time would lead to a much weaker model."""
    first = planned(token_ms={"p50": 0.3})
    busy = measured(first, 2.0, ("the load was 9",))
    check = check_finalists(first, lambda _: busy, no_second_search)
    assert (check.chosen, check.slower, check.noise) == (None, {}, ("the load was 9",))
    monkeypatch.setattr("edgegpt.planner.plan_models", lambda *_, **__: first)
    monkeypatch.setattr("edgegpt.cli.plan._finalists", lambda *_: busy)
    code, data, _ = plan(*PROFILE)
    assert (code, data["chosen"]) == (1, None)
    assert [finalist["noise"] for finalist in data["finalists"]] == [["the load was 9"]] * 2
    assert plan(*PROFILE, json_too=False)[0] == 1


def test_if_the_second_search_finds_nothing_the_shortfall_has_value_and_limit() -> None:
    first = planned(token_ms={"p50": 0.06})

    def again(slower: Any) -> PlanResult:
        raise BudgetError("nothing")

    check = check_finalists(first, lambda plan: measured(plan, 10.0), again)
    assert check.chosen is None
    shortfall = check.shortfall(first.limits).split()
    assert shortfall[0] == "token_ms.p50"
    assert 0.06 < float(shortfall[1]) < 1
    assert "0.06" in shortfall


def test_finalists_that_keep_the_budget_need_no_second_search() -> None:
    first = planned(token_ms={"p50": 0.3})
    for finalists in (measured(first, 0.9), []):
        assert check_finalists(first, lambda _: finalists, no_second_search).chosen == first.found.best[0]  # noqa: B023


# Ended


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_that_is_ended_leaves_no_process(how: signal.Signals, seconds: float) -> None:
    """Ctrl-C goes to every process of a terminal, here at once, while they import and when they work."""
    write_budget(token_ms={"p50": 1e-6})
    Path("folder").mkdir()
    options = ("--budget", "budget.yaml", *PROFILE, "--workers", "3", "--out", "folder/model.yaml")
    child = started("edgegpt", "plan", *options)
    while len(session(child.pid)) < 4:  # with multiprocessing's own, two workers
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(seconds)
    if how == signal.SIGINT:
        os.killpg(child.pid, how)
    else:
        child.send_signal(how)
    _, errors = child.communicate(timeout=60)
    if how == signal.SIGINT:  # a killed parent cannot silence its children
        was_over = child.returncode == 1 and errors.count("\n") == 1
        assert was_over or (child.returncode, errors) == (130, "edgegpt: interrupted\n")
    assert left_after(child.pid, 10) == []
    assert list(Path("folder").iterdir()) == []
