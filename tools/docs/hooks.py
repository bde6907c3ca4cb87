"""Generate pages of the site from the repository: the reference, results, root files.

`mkdocs.yml` names this file as a hook; each page has a generator next to it.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from api_page import api_page
from cli_page import cli_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from rooms import rooms_table
from ros_page import ros_page
from schema_page import schema_page

ROOT: Final = Path(__file__).parents[2]

GENERATED: Final[dict[str, Callable[[], str]]] = {
    "reference/cli.md": cli_page,
    "reference/python.md": api_page,
    "reference/ros.md": lambda: ros_page(ROOT / "ros2_ws" / "src" / "edgegpt_msgs"),
    "reference/schemas.md": lambda: schema_page(ROOT / "configs" / "schemas"),
    "benchmarks.md": lambda: (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"),
    "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    "contributing.md": lambda: (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the figures that the results show."""
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for figure in sorted((ROOT / "benchmarks" / "figures").iterdir()):
        files.append(File.generated(config, f"figures/{figure.name}", abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace `<!-- rooms -->` by the table of rooms and `<!-- section FILE#HEADING -->` by that section."""
    if "<!-- rooms -->" in markdown:
        markdown = markdown.replace("<!-- rooms -->", rooms_table(ROOT / "edgegpt"))
    return re.sub(r"<!-- section (\S+)#(.+?) -->", lambda found: _section(found[1], found[2]), markdown)


def _section(file: str, heading: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise PluginError(f"{file} has no section '{heading}'")
    return found[1].strip()
