"""edgegpt.files: a file is written whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from edgegpt.files import atomic_write, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_write_takes_the_final_name_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_text(tmp_path / "a.yaml", "naïve 😀\n")
    assert (tmp_path / "a.yaml").read_bytes() == "naïve 😀\n".encode()
    assert names(tmp_path) == ["a.yaml"]


def test_the_final_name_does_not_exist_before_the_block_is_done(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_text("half")
        assert not (tmp_path / "a").exists()
        assert temporary.parent == tmp_path  # a rename across file systems would not be atomic


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_an_interrupted_write_keeps_the_old_file_whole(tmp_path: Path, error: BaseException) -> None:
    write_text(tmp_path / "a", "old")

    def interrupted() -> None:
        with atomic_write(tmp_path / "a") as temporary:
            temporary.write_text("new, but on")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_full_disk_keeps_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # where a full disk may first show
    with pytest.raises(OSError, match="No space left") as told:
        write_text(tmp_path / "a", "new")
    assert told.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_the_file_has_the_rights_that_open_would_have_given_it(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "x")
    (tmp_path / "b").write_text("x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "b").stat().st_mode)
