"""Where a tuning is kept and when it is used; and that it changes how fast an answer comes, never which."""

import json
import logging
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_files import tiny_file, tokenizer, torch_greedy

import edgegpt
from edgegpt import contract
from edgegpt.errors import EngineError, MeasureError
from edgegpt.runtime import tuning
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.deadline import EngineLatency
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.onnx_file import file_sha256
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.tuning import PREFILL_CHUNK, Tuning, find, fingerprint, keep
from edgegpt_export import export_checkpoint

SHA = "a" * 64
TUNED = Tuning(decode_threads=1, prefill_threads=2, spinning=True, prefill_chunk=8)
TWO = Tuning(decode_threads=2, prefill_threads=2, spinning=False, prefill_chunk=32)
PROMPT = "go to the kitchen, then find the red mug"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """An empty cache folder of a machine with two cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "allowed_cpus", lambda: (0, 1))
    monkeypatch.setattr(tuning, "cgroup_quota", lambda: None)
    tuning._warn.cache_clear()
    return tmp_path / "cache" / "edgegpt" / "tuning"


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# --- its life in the cache folder ---


def test_a_tuning_is_found_again_and_replaced_by_the_next(cache_folder):
    path = keep(SHA, TUNED)
    assert path.is_relative_to(cache_folder)
    assert find(SHA) == TUNED
    assert keep(SHA, TWO) == path
    assert find(SHA) == TWO
    assert [file.name for file in cache_folder.rglob("*") if file.is_file()] == [path.name]


def test_without_a_tuning_nothing_is_found_said_or_made(cache_folder, caplog):
    assert find(SHA) is None
    assert warnings(caplog) == []
    assert not cache_folder.exists()


def test_another_file_has_another_tuning():
    keep(SHA, TUNED)
    assert find("b" * 64) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("allowed_cpus", (0, 2)), ("allowed_cpus", (0,)), ("cgroup_quota", 1.5), ("cpu_name", "another")],
)
def test_a_tuning_of_another_machine_or_share_of_it_is_not_used(monkeypatch, caplog, name, value):
    keep(SHA, TUNED)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(tuning, name, lambda: value)
        assert find(SHA) is None
        keep(SHA, Tuning.of_threads(1))
    assert find(SHA) == TUNED  # each keeps its own
    assert warnings(caplog) == []


@pytest.mark.parametrize("package", ["onnxruntime", "edgegpt-robot"])
def test_a_tuning_of_another_version_is_not_used(monkeypatch, package):
    keep(SHA, TUNED)
    real = tuning._version
    monkeypatch.setattr(tuning, "_version", lambda name: "0.0" if name == package else real(name))
    assert find(SHA) is None


def changed(path: Path, *keys: str, value: object) -> str:
    content = part = json.loads(path.read_text())
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: b"",
        lambda path: path.read_bytes()[:40],
        lambda path: b"\xff\xfe\x00",
        lambda path: b"null",
        lambda path: b"[" * 9000,
        lambda path: b" " * 10_001,
        lambda path: changed(path, "tuning", "decode_threads", value=0),
        lambda path: changed(path, "tuning", "decode_threads", value=True),
        lambda path: changed(path, "tuning", "prefill_chunk", value="64"),
        lambda path: changed(path, "tuning", "turbo", value=1),
        lambda path: changed(path, "tuning", "prefill_threads", value=3),  # of two cores
        lambda path: changed(path, "machine", "quota", value=1.0),
        lambda path: changed(path, "file_sha256", value="b" * 64),
    ],
)
def test_a_damaged_or_foreign_tuning_is_said_once_and_not_used(caplog, spoil):
    path = keep(SHA, TUNED)
    content = spoil(path)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert find(SHA) is find(SHA) is None
    (sentence,) = warnings(caplog)
    assert str(path) in sentence
    assert "`edgegpt tune`" in sentence
    keep(SHA, TUNED)
    assert find(SHA) == TUNED


def test_what_cannot_be_read_is_said_once_and_not_used(caplog, monkeypatch):
    path, really_open = keep(SHA, TUNED), Path.open

    def refused(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return really_open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refused)  # tests may run as root, who reads everything
    assert find(SHA) is find(SHA) is None
    assert warnings(caplog) == [
        f"the tunings in {path.parent} cannot be read (Permission denied), so there is none for this file"
    ]


def test_a_file_in_the_folders_place_is_no_cache(cache_folder, caplog):
    cache_folder.parent.mkdir(parents=True)
    cache_folder.write_text("in the way")
    assert find(SHA) is None
    assert warnings(caplog) == []
    with pytest.raises(MeasureError, match=f"cannot be kept in {cache_folder}/{SHA}: .*; set XDG_CACHE_HOME"):
        keep(SHA, TUNED)


def test_a_read_only_folder_is_refused_with_the_way_out(cache_folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for anybody but root
    with pytest.raises(MeasureError, match="permission denied; set XDG_CACHE_HOME to a folder"):
        keep(SHA, TUNED)


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert find(SHA) is None
    with pytest.raises(MeasureError, match="this user has no home; set XDG_CACHE_HOME"):
        keep(SHA, TUNED)


def test_a_relative_cache_folder_is_ignored_as_the_specification_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert keep(SHA, TUNED).is_relative_to(tmp_path / "home" / ".cache" / "edgegpt")


def test_writers_side_by_side_leave_one_whole_tuning_and_readers_see_only_whole_ones(caplog):
    keep(SHA, TUNED)
    seen = []

    def write(n):
        for _ in range(20):
            keep(SHA, Tuning.of_threads(1 + n % 2))
            seen.append(find(SHA))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert set(seen) <= {Tuning.of_threads(1), Tuning.of_threads(2)}
    assert warnings(caplog) == []
    assert [file.suffix for file in keep(SHA, TUNED).parent.iterdir()] == [".json"]


def test_the_fingerprint_is_the_processs_own(monkeypatch):
    monkeypatch.undo()
    assert fingerprint().cpus == tuple(sorted(os.sched_getaffinity(0)))


# --- load ---


def settings(model: edgegpt.TextGenerator) -> tuple[int, int, str, int]:
    """Threads of both sessions, spinning, and the length of a piece, as they are in force."""
    engine = model.engine
    both = [session.get_session_options() for session in (engine._session, engine._prefill_session)]
    (spinning,) = {options.get_session_config_entry("session.intra_op.allow_spinning") for options in both}
    decode, prefill = (options.intra_op_num_threads for options in both)
    return decode, prefill, spinning, engine.prefill_chunk


def test_load_uses_the_tuning_of_this_very_file(tmp_path):
    file = tiny_file(tmp_path)
    assert settings(edgegpt.load(file)) == (1, 1, "0", PREFILL_CHUNK)
    keep(file_sha256(file), TUNED)
    assert settings(edgegpt.load(file)) == (1, 2, "1", 8)
    file.write_bytes(file.read_bytes() + b"\x3a\x00")  # an empty graph more: the same model, another file
    assert settings(edgegpt.load(file)) == (1, 1, "0", PREFILL_CHUNK)


def test_threads_that_are_given_are_what_counts(tmp_path):
    file = tiny_file(tmp_path)
    keep(file_sha256(file), TUNED)
    model = edgegpt.load(file, threads=2)
    assert settings(model) == (2, 2, "0", PREFILL_CHUNK)
    assert model.engine._session is model.engine._prefill_session
    assert open_artifact(file).prefill_session is None


def test_a_broken_cache_never_breaks_load(tmp_path, caplog):
    file = tiny_file(tmp_path)
    keep(file_sha256(file), TUNED).write_text("{")
    assert settings(edgegpt.load(file)) == (1, 1, "0", PREFILL_CHUNK)
    assert len(warnings(caplog)) == 1


def test_an_exported_file_is_known_by_its_seal(tiny_checkpoint, tmp_path):
    file = tmp_path / "tiny.onnx"
    export_checkpoint(tiny_checkpoint, file)
    seal = edgegpt.onnx_metadata.read_metadata(file)[contract.META_FILE_SHA256]
    before = file.read_bytes()
    keep(seal, TUNED)
    assert open_artifact(file, threads=None).tuning == TUNED
    assert file.read_bytes() == before


# --- the same answers ---


@pytest.fixture(params=["engine", "portable", "int8", "int8 with an int8 cache"])
def file(request, tiny_checkpoint, tmp_path):
    if request.param in (contract.ENGINE, contract.PORTABLE):
        return tiny_file(tmp_path, request.param)
    path = tmp_path / "tiny.onnx"
    kv_cache = "int8" if "cache" in request.param else "fp32"
    export_checkpoint(tiny_checkpoint, path, precision="int8", kv_cache=kv_cache)
    return path


@pytest.mark.parametrize("chosen", [TUNED, TWO])
def test_a_tuned_model_gives_the_same_tokens(file, chosen):
    untuned, engine = (Engine.from_artifact(open_artifact(file, threads=threads)) for threads in (1, chosen))
    params = SamplingParams(temperature=0.0, max_new_tokens=20)
    ids = tokenizer().encode_prompt(PROMPT)
    assert len(ids) > chosen.prefill_chunk or chosen is TWO
    expected = list(untuned.generate(ids, params))
    assert list(engine.generate(ids, params)) == expected


def test_two_sessions_share_a_cache_through_turns_rewinds_and_forks(tmp_path):
    file = tiny_file(tmp_path)
    keep(file_sha256(file), TUNED)
    tuned, untuned = edgegpt.load(file).new_session(), edgegpt.load(file, threads=1).new_session()
    params = SamplingParams(temperature=0.0, max_new_tokens=5)
    for prompt in ("go left", "stop"):
        assert tuned.generate(prompt, params).token_ids == untuned.generate(prompt, params).token_ids
    for session in (tuned, untuned):
        session.rewind(tokens=3)
    other, another = tuned.fork(), untuned.fork()
    assert other.generate("wait", params).token_ids == another.generate("wait", params).token_ids
    assert tuned.token_ids == untuned.token_ids


def test_prompts_go_to_one_session_and_further_tokens_to_the_other(tmp_path):
    file = tiny_file(tmp_path)
    engine = Engine.from_artifact(open_artifact(file, threads=TUNED))
    used = []
    make_step = engine._make_step

    def watched(session, input_ids, *rest):
        step = make_step(session, input_ids, *rest)

        def run():
            used.append((session is engine._prefill_session, input_ids.size))
            step()

        return run

    engine._make_step = watched
    ids = list(range(20))
    params = SamplingParams(temperature=0.0, max_new_tokens=3)
    assert list(engine.generate(ids, params)) == torch_greedy(ids, 3, engine.n_valid)
    assert used == [(True, 8), (True, 8), (True, 4), (False, 1), (False, 1)]
    assert engine.token_losses(ids).shape == (19,)


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_piece_without_tokens_is_refused(chunk, tmp_path):
    artifact = open_artifact(tiny_file(tmp_path))
    with pytest.raises(EngineError, match=f"prefill_chunk must be at least 1, got {chunk}"):
        Engine(artifact.session, artifact.config, prefill_chunk=chunk)
    with pytest.raises(EngineError, match=r"prefill_chunk must be a whole number, got 2\.0"):
        Engine(artifact.session, artifact.config, prefill_chunk=2.0)


# --- deadlines ---


def test_the_pace_of_prompts_and_of_further_tokens_is_one_where_one_session_does_both():
    together, apart = EngineLatency(), EngineLatency(prefills_apart=True)
    for pace in (together, apart):
        pace.note_prefill(1, 3.0)
        pace.decode.note(1.0)
    assert together.prefill(1) == together.decode.mean == 2.75
    assert apart.prefill(1) == 3.0
    assert apart.decode.mean == 1.0
    assert not apart.allows(2.0, 1, decoding=False)
    assert apart.decode.seconds == 1.5


def test_the_warm_up_learns_the_pace_at_the_length_of_a_piece(tmp_path):
    file = tiny_file(tmp_path)
    keep(file_sha256(file), Tuning(decode_threads=1, prefill_threads=2, spinning=False, prefill_chunk=20))
    pace = edgegpt.load(file).pace
    assert pace.prefill_call is not pace.decode
    assert all(np.isfinite(part.fastest) for part in (pace.decode, pace.prefill_call, pace.prefill_token))
