"""Processes that a test started, and what they started: one session, known by /proc."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


def started(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `python -m ...` as the leader of a session, with pipes from it."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env, start_new_session=True)


def session(leader: int) -> list[int]:
    """Ids of the living processes of the session that a child with `start_new_session` leads."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            state, _, _, of_session = path.read_text().rpartition(")")[2].split()[:4]
            if int(of_session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def left_after(leader: int, seconds: float) -> list[str]:
    """The commands of those that are still there after so long; they are ended then, each by its id."""
    stop = time.monotonic() + seconds
    while (left := session(leader)) and time.monotonic() < stop:
        time.sleep(0.05)
    commands = []
    for process in left:
        with suppress(OSError):
            commands.append(Path(f"/proc/{process}/cmdline").read_text().replace("\0", " "))
            os.kill(process, signal.SIGKILL)
    return commands
