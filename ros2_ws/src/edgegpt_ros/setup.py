"""Install the Python package, its executables, launch files and parameter files."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "edgegpt_ros"


def files(folder: str, pattern: str) -> list[str]:
    """Return the matching paths, sorted so that every build is the same."""
    return sorted(str(path) for path in Path(folder).glob(pattern))


setup(
    name=NAME,
    version="0.1.0",
    description="A lifecycle node that answers prompts with a small GPT, fast and offline.",
    maintainer="edgegpt maintainers",
    maintainer_email="maintainers@edgegpt.dev",
    license="Apache-2.0",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", files("launch", "*.launch.*")),
        (f"share/{NAME}/config", files("config", "*.*")),
    ],
    entry_points={
        "console_scripts": [
            "generator = edgegpt_ros.main:main",
            "chat = edgegpt_ros.chat:main",
        ]
    },
    # edgegpt is not listed: colcon does not install pip packages, and the import error names what is missing.
    install_requires=["setuptools"],
    zip_safe=False,
)
