"""The files of others that pages load are those of npm, unmodified, with version and licence."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

from kavka.console.rendering import ASSETS, HERE, environment

ROOT = Path(__file__).parents[2]
OURS = {"console.css", "console.js", "icon.svg", "packages.json"}


def packages() -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = json.loads((ASSETS / "packages.json").read_text("utf-8"))
    return loaded


def test_each_file_is_listed_and_has_the_hash_of_its_package() -> None:
    listed: dict[str, str] = {}
    for package in packages().values():
        files = package["files"]
        assert isinstance(files, dict)
        listed |= {name: entry["sha256"] for name, entry in files.items()}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in ASSETS.iterdir()}
    assert {name: digest for name, digest in found.items() if name not in OURS} == listed
    assert found.keys() >= OURS


def test_each_package_has_a_pinned_version_and_a_licence() -> None:
    for name, package in packages().items():
        version, licence = str(package["version"]), ASSETS / str(package["license_file"])
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert str(package["source"]) == (
            f"https://registry.npmjs.org/{name}/-/{name}-{version}.tgz"
        )
        assert str(package["integrity"]).startswith("sha512-")
        assert "permission" in licence.read_text("utf-8").lower()
    assert f'version:"{packages()["htmx.org"]["version"]}"' in (ASSETS / "htmx.min.js").read_text()


def test_templates_and_assets_are_part_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    data = project["tool"]["setuptools"]["package-data"]["kavka"]
    assert {"console/assets/*", "console/templates/*.html"} <= set(data)
    assert {path.suffix for path in (HERE / "templates").iterdir()} == {".html"}
    assert all(path.is_file() for path in ASSETS.iterdir())


def test_templates_escape_everything() -> None:
    templates = environment()
    assert templates.autoescape is True
    for path in (HERE / "templates").iterdir():
        text = path.read_text("utf-8")
        assert not re.findall(r"\|\s*safe|autoescape|\sstyle=|\son\w+=", text), path.name
        templates.get_template(path.name)


def test_our_script_makes_no_html_of_its_own() -> None:
    script = (ASSETS / "console.js").read_text("utf-8")
    assert not re.findall(r"innerHTML|outerHTML =|eval\(|new Function|document\.write", script)
    assert script.count("insertAdjacentHTML") == 1  # of rows that the server has escaped
