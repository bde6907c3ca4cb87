"""Make one HTML page about one file, to attach to a release."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.report.html import save_page as save_page
    from edgegpt.report.report import Report as Report, make_report as make_report

__getattr__ = lazy_names(
    __name__,
    {
        "html": "save_page",
        "report": "Report make_report",
    },
)
