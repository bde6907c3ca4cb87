"""edgegpt.planner: what is ranked how, on a target made by hand. No time of this machine is judged."""

import json
import os
import socket
import sys
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_target import TARGET

from edgegpt.budget import Budget
from edgegpt.cli.main import main
from edgegpt.config import ModelConfig
from edgegpt.errors import BudgetError, ConfigError, MeasureError
from edgegpt.measure.machine import machine
from edgegpt.planner.limits import limits_of
from edgegpt.planner.plan import Plan, plan
from edgegpt.planner.scaling import PRECISION_NATS, block_parameters, expected_loss, right_vocabularies
from edgegpt.planner.search import Job, merge, search_range
from edgegpt.planner.space import Space, space_of
from edgegpt.planner.spread import in_processes, ranges
from edgegpt.target import TargetMachine

Capture = pytest.CaptureFixture[str]

# Some 400 models, so that a test searches them in a moment.
SMALL = Space(layers=(1, 2, 4, 8), widths=(64, 128, 256), vocabularies=(512, 2048), contexts=(128, 256))
FEW = replace(SMALL, contexts=(128,), head_dims=(32,))
VALUES: dict[str, Any] = {"parameters": 3_000_000, "artifact_mb": 4.0, "token_ms": {"p50": 2.0}}


def budget(**limits: Any) -> Budget:
    return Budget.model_validate({"name": "hand", **limits})


def planned(**limits: Any) -> Plan:
    return plan(budget(**limits), SMALL, target=TARGET)


def shape(n_layer: int, n_embd: int) -> ModelConfig:
    return ModelConfig(vocab_size=512, block_size=64, n_layer=n_layer, n_head=n_embd // 32, n_embd=n_embd)


# The rule


def test_the_law_of_kaplan_is_what_it_is_known_by() -> None:
    gpt2 = ModelConfig(vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768)
    assert block_parameters(gpt2) == pytest.approx(85e6, rel=0.01)
    assert expected_loss(gpt2, "fp32") == pytest.approx((8.8e13 / 85e6) ** 0.076, rel=0.01)


def test_more_layers_and_more_width_are_stronger() -> None:
    assert expected_loss(shape(8, 256), "fp32") < expected_loss(shape(6, 256), "fp32")
    assert expected_loss(shape(8, 288), "fp32") < expected_loss(shape(8, 256), "fp32")


def test_of_the_same_parameters_the_shape_near_the_best_ratio_is_stronger() -> None:
    deep, wide = shape(16, 256), shape(1, 1024)
    assert block_parameters(deep) == pytest.approx(block_parameters(wide), rel=0.01)
    assert expected_loss(deep, "fp32") < expected_loss(wide, "fp32")


def test_few_bits_cost_what_was_measured() -> None:
    model = shape(4, 128)
    for precision, nats in PRECISION_NATS.items():
        assert expected_loss(model, precision) == pytest.approx(expected_loss(model, "fp32") + nats)


def test_a_larger_model_gets_a_larger_vocabulary() -> None:
    sizes = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
    assert right_vocabularies(3_000_000_000, 3200, sizes) == (32768, 65536)
    assert right_vocabularies(800_000, 128, sizes) == (1024, 2048)
    assert right_vocabularies(800_000, 128, (32768,)) == (32768,)


# The search


def test_every_model_that_is_found_keeps_every_limit() -> None:
    found = planned(**VALUES, peak_rss_mb=90).found
    assert found.best
    for rated in (*found.best, *found.front):
        assert rated.figures["parameters"] <= 3_000_000
        assert rated.figures["artifact_mb"] <= 4
        assert rated.figures["token_ms.p50"] <= 2
        assert rated.figures["peak_rss_mb"] <= 90


def test_the_best_are_in_order_and_nothing_stronger_was_left_out() -> None:
    found = planned(**VALUES).found
    losses = [rated.loss for rated in found.best]
    assert losses == sorted(losses)
    assert found.front[0].loss == found.best[0].loss


def test_on_the_front_nothing_is_both_weaker_and_dearer() -> None:
    front = planned(**VALUES).found.front
    assert len(front) > 2
    for stronger, weaker in pairwise(front):
        assert weaker.loss > stronger.loss
        assert weaker.cost < stronger.cost


LIMIT = st.floats(0.3, 8.0)


@settings(max_examples=25)
@given(LIMIT, LIMIT, st.floats(0.1, 5.0), st.floats(1.0, 3.0))
def test_a_larger_budget_never_gives_a_weaker_best_model(
    artifact: float, parameters: float, token: float, more: float
) -> None:
    def best(factor: float) -> float:
        limits = {
            "artifact_mb": factor * artifact,
            "parameters": int(factor * parameters * 1e6),
            "token_ms": {"p50": factor * token},
        }
        try:
            return plan(budget(**limits), FEW, target=TARGET).found.best[0].loss
        except BudgetError:
            return float("inf")

    assert best(more) <= best(1.0)


def job(space: Space) -> Job:
    return Job(space, limits_of(budget(**VALUES), with_target=True), TARGET, keep=10)


def test_the_result_does_not_depend_on_how_the_search_was_cut() -> None:
    whole, todo = planned(**VALUES).found, job(SMALL)
    pieces = [search_range(todo, i, i + 1) for i in range(len(SMALL.shapes()))]
    assert merge(todo, pieces) == whole
    assert merge(todo, reversed(pieces)) == whole


def test_two_processes_find_what_one_finds() -> None:
    space = replace(SMALL, layers=tuple(range(1, 17)))
    assert len(ranges(job(space))) > 1
    one, two = (plan(budget(**VALUES), space, target=TARGET, workers=n) for n in (1, 2))
    assert two == one


def end_at_once(*_: Any) -> None:
    os._exit(1)


def test_a_process_that_is_ended_from_outside_is_said() -> None:
    with pytest.raises(MeasureError, match="one of 2 processes of the search ended before"):
        list(in_processes(end_at_once, job(SMALL), workers=2))


def test_without_a_target_models_are_held_to_sizes_alone() -> None:
    found = plan(budget(artifact_mb=2.0, token_ms={"p50": 1e-9}), SMALL)
    assert found.limits.left_out == ("token_ms.p50",)
    assert "token_ms.p50" not in found.found.best[0].figures


def test_a_median_above_the_limit_of_a_p99_is_no_candidate() -> None:
    for rated in planned(token_ms={"p99": 0.2}).found.best:
        assert rated.figures["token_ms.p50"] <= 0.2


def test_the_boards_memory_is_a_limit() -> None:
    memory = {"value": 85, "basis": "published", "source": "hand"}
    found = planned(parameters=10**9, board={"description": "hand", "memory_mb": memory})
    assert all(rated.figures["peak_rss_mb"] <= 85 for rated in found.found.best)


# What cannot be


def test_a_limit_out_of_reach_is_named_with_the_least_that_is_possible() -> None:
    with pytest.raises(BudgetError) as e:
        planned(token_ms={"p50": 0.001}, artifact_mb=4.0)
    assert "out of reach is token_ms.p50 0.001 (the least is " in str(e.value)
    assert "artifact_mb" not in str(e.value)


def test_limits_that_no_model_keeps_together_name_the_one_that_binds() -> None:
    """On this board few bits are slow, so the smallest file and the fastest token are not of one model."""
    products = [
        row if row.bits == 32 else row.model_copy(update={"node_us": 100.0}) for row in TARGET.products
    ]
    board = TARGET.model_copy(update={"products": products})
    every = plan(budget(parameters=10**9), SMALL, target=board, keep=10**6).found.best
    smallest = min(rated.figures["artifact_mb"] for rated in every)
    fastest = min(rated.figures["token_ms.p50"] for rated in every)
    with pytest.raises(BudgetError) as e:
        plan(budget(artifact_mb=smallest, token_ms={"p50": fastest}), SMALL, target=board)
    assert "artifact_mb binds, the nearest model (1 x 64, " in str(e.value)
    assert "out of reach" not in str(e.value)


def test_a_budget_without_a_limit_to_plan_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="no limit that a model can be planned for, only idle_cpu_percent"):
        planned(idle_cpu_percent=3)
    with pytest.raises(ConfigError, match="or give a target with --target"):
        plan(budget(token_ms={"p50": 2}), SMALL)


@pytest.mark.parametrize("workers", [0, -1, 5000])
def test_workers_that_cannot_be_are_refused(workers: int) -> None:
    with pytest.raises(ConfigError, match=f"workers must be within 1 and 1024, got {workers}"):
        plan(budget(**VALUES), SMALL, workers=workers)


def test_a_context_that_does_not_hold_the_prompt_is_refused() -> None:
    with pytest.raises(ConfigError, match="above the 32 tokens of the budget's prompt"):
        space_of(context=32, prompt_tokens=32)


# As a user types it


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "budget.yaml").write_text(yaml.safe_dump({"name": "hand", **VALUES}))
    (tmp_path / "target.yaml").write_text(TARGET.to_yaml())
    return str(tmp_path / "budget.yaml"), str(tmp_path / "target.yaml")


def refused(capsys: Capture, *arguments: str, code: int = 2) -> str:
    assert main(["plan", *arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command searches few models."""
    monkeypatch.setattr("edgegpt.planner.space.space_of", lambda **_: SMALL)


@pytest.mark.usefixtures("few")
def test_a_plan_writes_a_model_that_params_can_read(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--out", str(out)]
    assert main(["plan", *arguments]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "The strongest",
        "What less time costs",
        "Kaplan et al. 2020",
        "another machine",
        "Chosen: ",
    ):
        assert words in text
    config = ModelConfig.from_yaml(out)
    assert config.tie_embeddings
    assert "# Export it with --precision" in out.read_text()
    assert main(["params", str(out)]) == 0


@pytest.mark.usefixtures("few")
def test_a_plan_for_machines(files: tuple[str, str], capsys: Capture) -> None:
    assert main(["plan", "--budget", files[0], "--target", files[1], "--workers", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["chosen"] == data["best"][0]
    assert data["finalists"] == []
    assert data["models_kept"] < data["models_seen"]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_finalists_are_built_and_measured_where_the_target_is_this_machine(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    here = TARGET.model_copy(update={"machine": TargetMachine.of(machine())})
    Path(files[1]).write_text(here.to_yaml())
    generous = {"name": "hand", "parameters": 300_000, "artifact_mb": 2.0, "token_ms": {"p50": 1000.0}}
    Path(files[0]).write_text(yaml.safe_dump(generous))
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--finalists", "1", "--json"]
    assert main(["plan", *arguments]) == 0
    (finalist,) = json.loads(capsys.readouterr().out)["finalists"]
    assert finalist["broken"] == []
    assert finalist["measured"]["artifact_mb"] == pytest.approx(
        finalist["predicted"]["artifact_mb"], rel=0.05
    )
    assert finalist["measured"]["token_ms.p50"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_where_no_finalist_keeps_the_budget_nothing_is_written(
    files: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    fast = TARGET.calls.step.model_copy(update={"call_us": 0.0, "us_per_layer": 0.0, "node_factor": 0.0})
    calls = TARGET.calls.model_copy(update={"step": fast})
    here = TARGET.model_copy(update={"machine": TargetMachine.of(machine()), "calls": calls})
    Path(files[1]).write_text(here.to_yaml())
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "token_ms": {"p50": 0.01}}))
    out = tmp_path / "model.yaml"
    arguments = ["--budget", files[0], "--target", files[1], "--workers", "1", "--finalists", "1"]
    assert main(["plan", *arguments, "--out", str(out)]) == 1
    assert (
        "none of 1 finalists keeps the budget 'hand'; the first breaks token_ms.p50"
        in capsys.readouterr().err
    )
    assert not out.exists()


@pytest.mark.usefixtures("few")
def test_an_impossible_budget_ends_with_one(files: tuple[str, str], capsys: Capture) -> None:
    Path(files[0]).write_text(yaml.safe_dump({"name": "hand", "artifact_mb": 0.001}))
    message = refused(capsys, "--budget", files[0], "--workers", "1", code=1)
    assert "out of reach is artifact_mb 0.001 (the least is 0.0" in message


def test_bad_input_is_one_sentence(files: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    given = ["--budget", files[0]]
    assert "does not exist" in refused(capsys, "--budget", "none.yaml")
    assert "does not exist" in refused(capsys, *given, "--target", "none.yaml")
    assert "the key 'machine' is missing" in refused(capsys, *given, "--target", files[0])
    assert "workers must be within 1 and 1024, got 0" in refused(capsys, *given, "--workers", "0")
    assert "got 'int2'" in refused(capsys, *given, "--precision", "int2")
    assert "vocab_size must be within 257" in refused(capsys, *given, "--vocab-size", "5")
    assert "got 8" in refused(capsys, *given, "--context", "8")
    assert "exclude each other" in refused(capsys, *given, "--ray", "local", "--workers", "2")
    assert "must name a .yaml" in refused(capsys, *given, "--out", str(tmp_path / "model.txt"))


# On a Ray cluster


def test_a_cluster_that_does_not_answer_is_said_at_once(
    files: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with socket.socket() as free:  # bound and not listening: nothing else can answer there
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        message = refused(capsys, "--budget", files[0], "--ray", address)
        assert f"nothing answers at {address} within 3 s" in message
        assert f"nothing answers at ray://{address}" in refused(
            capsys, "--budget", files[0], "--ray", f"ray://{address}"
        )
    for wrong in ("nowhere", "host:port", "host:0", ""):
        message = refused(capsys, "--budget", files[0], "--ray", wrong)
        assert f"must be host:port, auto or local, got {wrong!r}" in message


def test_without_ray_the_extra_is_named(
    files: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    message = refused(capsys, "--budget", files[0], "--ray", "local")
    assert "needs the package 'ray'; install the extra [ray]" in message


@pytest.mark.slow
def test_a_ray_cluster_finds_what_one_process_finds() -> None:
    if find_spec("ray") is None:
        pytest.skip("needs the extra [ray]")
    space = replace(SMALL, layers=tuple(range(1, 17)))
    here = plan(budget(**VALUES), space, target=TARGET)
    assert plan(budget(**VALUES), space, target=TARGET, ray="local") == here
    with pytest.raises(BudgetError, match="out of reach is artifact_mb"):
        plan(budget(artifact_mb=0.001), space, target=TARGET, ray="local")
