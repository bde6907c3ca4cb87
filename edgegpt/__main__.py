"""`python -m edgegpt` is the `edgegpt` command."""

from edgegpt.cli.main import run

run()
