"""edgegpt.files: a file is written whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from edgegpt.files import atomic_write, write_text


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_finished_write_has_the_rights_of_open_and_leaves_nothing_else(tmp_path: Path) -> None:
    path, other = tmp_path / "a.yaml", tmp_path.with_name("other")
    write_text(path, "naïve 😀\n")
    assert path.read_bytes() == "naïve 😀\n".encode()
    assert names(tmp_path) == ["a.yaml"]
    other.write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_the_final_name_does_not_exist_before_the_block_is_done(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_text("half")
        assert not (tmp_path / "a").exists()
        assert temporary.parent == tmp_path  # a rename across file systems would not be atomic


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_keeps_the_old_file_whole(tmp_path: Path, error: type[BaseException]) -> None:
    write_text(tmp_path / "a", "old")
    with pytest.raises(error), atomic_write(tmp_path / "a") as temporary:  # noqa: PT012
        temporary.write_text("new, but on")
        raise error
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_full_disk_keeps_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # where a full disk may first show
    with pytest.raises(OSError, match="No space left") as error:
        write_text(tmp_path / "a", "new")
    assert error.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]
