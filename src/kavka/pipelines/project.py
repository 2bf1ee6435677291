"""Pipeline projects: finding one, reading its specification, making one from a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kavka.pipelines.yaml_values import yaml_errors

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DEFAULTS_NAME = "spark-defaults.conf"
"""Settings of the driver beside the specification, in Spark's format: `spark-pipelines --properties-file` takes it."""
SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
"""Names of the file that makes a folder a project, as Spark looks for them."""
_REQUIRED = ("pyspark", "pyarrow", "pandas", "yaml", "grpc", "grpc_status", "google.protobuf")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SUFFIXES = (".conf", ".py", ".sql", ".yml", ".md", ".sh", ".csv", ".json", ".jsonl", ".txt")
"""Files of a template in which `{{name}}` and the like are replaced."""


class PipelineError(Exception):
    """The command cannot do what was asked; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project and what its specification says; `spec` is PySpark's PipelineSpec."""

    spec_path: Path
    spec: Any

    @property
    def directory(self) -> Path:
        """Return the project's folder."""
        return self.spec_path.parent

    @property
    def name(self) -> str:
        """Return the pipeline's name."""
        return str(self.spec.name)

    @property
    def storage(self) -> str:
        """Return the URI under which checkpoints are kept."""
        return str(self.spec.storage)

    @property
    def storage_path(self) -> Path | None:
        """Return the storage as a path of this machine, None when it is elsewhere."""
        return local_path(self.storage)

    @property
    def configuration(self) -> Mapping[str, str]:
        """Return the Spark settings of the specification."""
        settings: Mapping[str, str] = self.spec.configuration
        return settings

    @property
    def defaults(self) -> Mapping[str, str]:
        """Return the settings of the file beside the specification, none without one."""
        path = self.directory / DEFAULTS_NAME
        return read_defaults(path.read_text(encoding="utf-8")) if path.is_file() else {}


def read_defaults(text: str) -> dict[str, str]:
    """Return the settings of a file like `spark-defaults.conf`: a name, space or `=`, a value; # begins a comment."""
    settings = {}
    for line in text.splitlines():
        words = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        if words[0] and not words[0].startswith("#"):
            settings[words[0]] = words[1] if len(words) > 1 else ""
    return settings


def local_path(uri: str) -> Path | None:
    """Return the path of a `file:` URI or of a plain path; None for another file system."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path))


def require_pipelines() -> None:
    """Raise PipelineError unless what Spark's pipelines need is installed."""
    for module in _REQUIRED:
        if not _is_installed(module):
            raise PipelineError(
                f"{module} is missing: install it with `pip install 'kavka[spark]'`"
            )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def find_spec_file(start: Path) -> Path:
    """Return the specification at `start` (a folder or the file), or in the nearest folder above it."""
    if start.is_file():
        return start.resolve()
    if not start.is_dir():
        raise PipelineError(
            f"{start} does not exist: name a project's folder or its {SPEC_NAMES[0]}"
        )
    for folder in (start.resolve(), *start.resolve().parents):
        specs = [folder / name for name in SPEC_NAMES if (folder / name).is_file()]
        if len(specs) > 1:
            raise PipelineError(f"{folder} has both {' and '.join(SPEC_NAMES)}: remove one")
        if specs:
            return specs[0]
    raise PipelineError(
        f"{start} is not a pipeline project: it has no {SPEC_NAMES[0]}, nor has a folder above it; "
        "`kavka pipelines init NAME` makes one"
    )


def load_project(start: Path) -> Project:
    """Read the project at or above a path. Raise PipelineError for a specification that Spark would refuse."""
    path = find_spec_file(start)
    require_pipelines()
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import load_pipeline_spec

    try:
        with yaml_errors(path, PipelineError):
            spec = load_pipeline_spec(path)
    except PySparkException as error:
        raise PipelineError(f"{path}: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise PipelineError(
            f"{path} is not a valid specification of a pipeline: it is empty, or a field has the wrong type ({error}); "
            "`kavka pipelines init` makes one to compare with"
        ) from error
    if not spec.libraries:
        raise PipelineError(
            f"{path} names no transformations: add `libraries:` with a glob such as transformations/**"
        )
    return Project(path, spec)


# Templates


def template_names() -> list[str]:
    """Return the templates, sorted: folders of `kavka/pipelines/templates`."""
    return sorted(entry.name for entry in _templates().iterdir() if _is_template(entry))


def _templates() -> Traversable:
    return files("kavka.pipelines") / "templates"


def _is_template(entry: Traversable) -> bool:
    return entry.is_dir() and (entry / SPEC_NAMES[0]).is_file()


def make_project(directory: Path, template: str, bootstrap: str) -> list[Path]:
    """Write a template into a new folder and return its files, relative to it.

    The folder's name is the pipeline's. In the files `{{name}}`, `{{directory}}`, `{{storage}}` (a URI) and
    `{{bootstrap}}` are replaced.
    """
    if template not in template_names():
        raise PipelineError(
            f"there is no template {template!r}; the templates are {', '.join(template_names())}"
        )
    name = directory.resolve().name
    if not _NAME.fullmatch(name):
        raise PipelineError(
            f"{name!r} cannot name a pipeline: take letters, digits, - and _, with a letter first"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise PipelineError(f"{directory} exists and is not empty: choose another name")
    home = directory.resolve()
    values = {
        "name": name,
        "directory": str(home),
        "storage": (home / "storage").as_uri(),
        "bootstrap": bootstrap,
    }
    written: list[Path] = []
    _copy(_templates() / template, directory, Path(), values, written)
    return sorted(written)


def _copy(
    source: Traversable,
    directory: Path,
    below: Path,
    values: Mapping[str, str],
    written: list[Path],
) -> None:
    for entry in source.iterdir():
        target = below / entry.name
        if entry.is_dir():
            if entry.name != "__pycache__":
                _copy(entry, directory, target, values, written)
            continue
        (directory / below).mkdir(parents=True, exist_ok=True)
        content = entry.read_bytes()
        if target.suffix in _SUFFIXES:
            content = fill(content.decode("utf-8"), values).encode("utf-8")
        (directory / target).write_bytes(content)
        written.append(target)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{{name}}` by the value of that name; other braces stay."""
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text
