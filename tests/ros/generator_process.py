"""The node as a process, as a robot starts it; or with a model that is slow or fails when a test says so."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .workspace import executable, start

FAULTY = Path(__file__).with_name("faulty_generator.py")


class GeneratorProcess:
    """One process.

    Attributes:
        output: the lines it has printed.
        took: seconds from `stop`'s signal to the end.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        *,
        namespace: str = "",
        faults: Mapping[str, object] | None = None,
        ros_arguments: Sequence[str] = (),
    ) -> None:
        """`faults` are those of faulty_generator.py; without any it is the installed executable."""
        command = [executable("generator")] if faults is None else [sys.executable, str(FAULTY)]
        arguments = ["--ros-args", *ros_arguments]
        if namespace:
            arguments += ["-r", f"__ns:={namespace}"]
        for name, value in (parameters or {}).items():
            arguments += ["-p", f"{name}:={value}"]
        extra = {f"EDGEGPT_TEST_{name.upper()}": str(value) for name, value in (faults or {}).items()}
        self.process = start([*command, *arguments], {**env, **extra})
        self.output: list[str] = []
        self.took = 0.0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line.rstrip())

    @property
    def text(self) -> str:
        """All it has printed."""
        return "\n".join(self.output)

    def rss_bytes(self) -> int:
        """Resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def peak_rss_bytes(self) -> int:
        """The most resident memory there has been."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def stop(self, number: int = signal.SIGINT, timeout_s: float = 10) -> int:
        """Send a signal and wait for the end; the exit code."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.took = time.monotonic() - began
        self._reader.join(timeout_s)
        return code

    def __enter__(self) -> "GeneratorProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        if error is not None:
            print(self.text)
        else:
            assert code == 0, self.text
            assert "Traceback" not in self.text, self.text
