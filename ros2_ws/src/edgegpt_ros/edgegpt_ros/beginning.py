"""What an executable settles before rclpy starts: a call for help, and a domain that would kill it."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

# DDS makes port numbers of the domain, and those of the next one are beyond 65535. Fast DDS then ends the
# process instead of raising.
_LAST_DOMAIN: Final = 232


def early_exit(name: str, usage: str, args: Sequence[str] | None) -> int | None:
    """The exit code of a program that does not begin, after printing why; None for one that does.

    Args:
        name: of the program, for the sentence.
        usage: what `--help` prints.
        args: as of rclpy.init, the program's name first; None is sys.argv.
    """
    arguments = list(sys.argv if args is None else args)[1:]
    if "--ros-args" in arguments:
        arguments = arguments[: arguments.index("--ros-args")]
    if "--help" in arguments or "-h" in arguments:
        print(usage)
        return 0
    text = os.environ.get("ROS_DOMAIN_ID", "")
    domain = _number(text)
    if domain is not None and not 0 <= domain <= _LAST_DOMAIN:
        print(
            f"{name} cannot start: ROS_DOMAIN_ID must be from 0 to {_LAST_DOMAIN}, got {text[:40]!r}",
            file=sys.stderr,
        )
        return 2
    return None


def _number(text: str) -> int | None:
    """The number that ROS makes of it, as C's strtoul with a base of 0; None for what ROS itself refuses."""
    found = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if found is None:
        return None
    sign, digits = found.groups()
    octal = digits.startswith("0") and digits[1:].isdigit()
    number = int(digits[:40], 8 if octal else 0)
    return -number if sign == "-" else number
