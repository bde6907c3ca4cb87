"""Build this workspace where pip is all there is: ROS 2 Jazzy from wheels, into .venv-ros.

    python3 ros2_ws/make_ros.py

Where apt's ROS 2 Jazzy is installed nothing of this is needed: `colcon build` in this folder does it.
Run again, it does only what a change asks for. Exit codes: 0 built; 1 a step failed; 130 Ctrl-C; 3 this
machine lacks something and the workspace is left out, which with CI=true is a failure too.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

WORKSPACE = Path(__file__).resolve().parent
ROOT = WORKSPACE.parent
VENV = ROOT / ".venv-ros"
PYTHON = VENV / "bin" / "python"

STEP = ROOT / "tools" / "step"

FAILED, LEFT_OUT, INTERRUPTED = 1, 3, 130

WHEELS_FOR = ((3, 12), (3, 11))  # CPython, the first that is here
WHEELS_ON = ("x86_64", "aarch64")

RUNTIME = """
rclpy rmw-fastrtps-cpp diagnostic-msgs lifecycle-msgs std-msgs std-srvs domain-coordinator
"""
TO_BUILD = """
ament-cmake ament-cmake-export-include-directories ament-cmake-gmock ament-cmake-gtest
ament-cmake-include-directories ament-cmake-pytest ament-cmake-python ament-cmake-ros ament-package
fastrtps-cmake-module gmock-vendor gtest-vendor python-cmake-module rosidl-core-generators
rosidl-default-generators rosidl-dynamic-typesupport-fastrtps
"""
ROS_WHEELS = [f"ros-jazzy-{name}" for name in (RUNTIME + TO_BUILD).split()]
# The robot's environment: edgegpt without torch, and pytest. colcon-core needs the old setuptools.
COLCON = ["colcon-bash", "colcon-output", "colcon-ros", "setuptools<80"]
OTHERS = [*COLCON, "pytest", "pytest-xdist", "-e", str(ROOT)]
ROS_PINS = ROOT / "constraints-ros.txt"
PINS = [ROOT / "constraints.txt", ROS_PINS]

PYTHON_H = (
    "import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
)
INCLUDE_FOLDERS = (
    "import sysconfig, numpy; print(sysconfig.get_path('include'), numpy.get_include(), sep='\\n')"
)

# What the wheels' cmake files say of the machine that built them.
FOREIGN_PYTHON = re.compile(r"/opt/python/cp3\d+-cp3\d+/include/python3\.\d+")
FOREIGN_NUMPY = re.compile(r"/opt/python/cp3\d+-cp3\d+/lib/python3\.\d+/site-packages/numpy/_core/include")


def main() -> None:
    """Bring environment and workspace up to date."""
    wanted = fingerprint([*PINS, ROOT / "pyproject.toml", Path(__file__)], str(ROOT))
    stamp = VENV / ".edgegpt-is-set-up"
    if read(stamp) != wanted or not works():
        base = python_with_wheels()
        check_tools(base)
        stamp.unlink(missing_ok=True)
        set_up(base)
        stamp.write_text(wanted)

    environment = fingerprint([ROS_PINS, Path(__file__)], str(ROOT))
    wanted = f"{environment} {fingerprint(list(what_a_build_reads()))}"
    stamp = WORKSPACE / "install" / ".edgegpt-is-built"
    if read(stamp) != wanted:
        check_tools(str(PYTHON))
        if not read(stamp).startswith(environment):  # what another environment built is of no use
            for folder in ("build", "install", "log"):
                shutil.rmtree(WORKSPACE / folder, ignore_errors=True)
        stamp.unlink(missing_ok=True)
        build()
        stamp.write_text(wanted)


def python_with_wheels() -> str:
    """An interpreter for which there are wheels: this one if it will do."""
    if platform.system() != "Linux" or platform.machine() not in WHEELS_ON or not platform.libc_ver()[0]:
        leave_out(
            f"the wheels are for Linux with glibc on {' and '.join(WHEELS_ON)}, and this is "
            f"{platform.system()} on {platform.machine()}"
        )
    if sys.version_info[:2] in WHEELS_FOR:
        return sys.executable
    names = [f"python{major}.{minor}" for major, minor in WHEELS_FOR]
    found = [path for name in names if (path := shutil.which(name)) and succeeds([path, "-c", ""])]
    if not found:
        leave_out(
            f"the wheels are for Python 3.11 and 3.12, and this is {platform.python_version()}; "
            "on Debian 12: apt install python3.11-dev python3.11-venv, on Ubuntu 24.04: apt install "
            "python3.12-dev python3.12-venv"
        )
    return found[0]


def check_tools(python: str) -> None:
    """Leave the workspace out where the machine lacks what a build needs."""
    name = "python" + output([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    needs = [
        ("C++ compiler", "g++", bool(shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++"))),
        ("make", "make", bool(shutil.which("make"))),
        ("headers of " + name, f"{name}-dev", succeeds([python, "-c", PYTHON_H])),
        ("venv module of " + name, f"{name}-venv", succeeds([python, "-c", "import ensurepip, venv"])),
    ]
    missing = [(what, package) for what, package, is_here in needs if not is_here]
    if missing:
        leave_out(
            f"this machine has no {' and no '.join(what for what, _ in missing)}; "
            f"on Debian and Ubuntu: apt install {' '.join(package for _, package in missing)}"
        )


def set_up(base: str) -> None:
    """Make .venv-ros, and set its cmake files right."""
    say("Setting up ROS 2 Jazzy in .venv-ros: two minutes, 110 MB to download, 0.5 GB on disk.")
    run("Python environment", [base, "-m", "venv", *([] if works() else ["--clear"]), str(VENV)])
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install"]
    pins = [word for path in PINS for word in ("-c", str(path))]
    cmake = [] if shutil.which("cmake") else ["cmake"]
    run("ROS 2 Jazzy and edgegpt", [*pip, *pins, *ROS_WHEELS, *cmake, *OTHERS])
    python_include, numpy_include = output([str(PYTHON), "-c", INCLUDE_FOLDERS]).splitlines()
    for path in (VENV / "share").rglob("*.cmake"):
        text = path.read_text(encoding="utf-8")
        here = FOREIGN_NUMPY.sub(lambda _: numpy_include, FOREIGN_PYTHON.sub(lambda _: python_include, text))
        if here != text:
            path.write_text(here, encoding="utf-8")


def build() -> None:
    """Build both packages; a change in a Python file of edgegpt_ros then needs no build."""
    # No other ROS of this machine may be mixed in.
    foreign = ("AMENT_", "CMAKE_", "COLCON_", "ROS_", "PYTHON", "LD_LIBRARY_PATH", "_ROS_WHEELS")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        "AMENT_PREFIX_PATH": str(VENV),
        "CMAKE_PREFIX_PATH": str(VENV),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(VENV),
    }
    cmake = [f"-DPython3_EXECUTABLE={PYTHON}", "-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    # Its one warning is that a venv is no ament prefix.
    colcon = [str(VENV / "bin" / "colcon"), "--log-level", "error", "build", "--symlink-install"]
    run("Building the ROS packages", [*colcon, "--cmake-args", *cmake], cwd=WORKSPACE, env=environment)


def what_a_build_reads() -> Iterator[Path]:
    """Files whose change asks for a build. The Python modules of edgegpt_ros are used where they are."""
    yield from files_under(WORKSPACE / "src" / "edgegpt_msgs")
    package = WORKSPACE / "src" / "edgegpt_ros"
    yield from (package / name for name in ("package.xml", "setup.cfg", "setup.py"))
    for name in ("launch", "config", "resource"):
        yield from files_under(package / name)


def files_under(folder: Path) -> Iterator[Path]:
    """Every file in a folder and those below it, in order; none where there is no such folder."""
    return (
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.parent.name != "__pycache__"
    )


def fingerprint(paths: list[Path], *words: str) -> str:
    """Changes with the contents and names of these files, and with the words."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def read(stamp: Path) -> str:
    """Return the content of a stamp file, empty without one."""
    return stamp.read_text() if stamp.is_file() else ""


def works() -> bool:
    """Return whether .venv-ros has an interpreter that runs and for which there are wheels."""
    code = f"import sys; sys.exit(sys.version_info[:2] not in {WHEELS_FOR})"
    return PYTHON.exists() and succeeds([str(PYTHON), "-S", "-c", code])


def succeeds(command: list[str]) -> bool:
    """Return whether a command ends with exit code 0; its output is dropped."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def output(command: list[str]) -> str:
    """Return the output of a command."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def run(what: str, command: list[str], **options: Any) -> None:
    """Run one step quietly, see tools/step, and end here if it fails."""
    log = ROOT / "runs" / "setup" / f"ros-{what.split()[0].lower()}.log"
    with subprocess.Popen([str(STEP), str(log), what, *command], **options) as step:
        try:
            code = step.wait()
        except KeyboardInterrupt:  # the step got Ctrl-C too, and says so
            code = step.wait()
    if code == INTERRUPTED:
        sys.exit(code)
    if code:
        say("The ROS 2 workspace is not built.")
        sys.exit(FAILED)


def leave_out(reason: str) -> NoReturn:
    """End because of this machine, not because of the workspace."""
    say(f"ROS 2 is left out: {reason}")
    sys.exit(FAILED if os.environ.get("CI") == "true" else LEFT_OUT)


def say(sentence: str) -> None:
    """Print to where errors go, ahead of what a step prints."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
