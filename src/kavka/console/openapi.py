"""The description of the JSON API (OpenAPI 3.1), made of the declarations of pages and actions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kavka import __version__
from kavka.console.failures import Failure
from kavka.console.pages.messages import FILTERS
from kavka.console.parameters import Parameter
from kavka.console.sentences import Sentence
from kavka.console.subject import Action, Download, Outcome, Page
from kavka.console.views.messages import RecordView

PREFIX = "/api"
_SIMPLE = {
    str: "string",
    Sentence: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


class _Schemas:
    """The schemas of classes, each once."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        if hint in _SIMPLE:
            return {"type": _SIMPLE[hint]}
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(one) for one in arguments]}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        assert is_dataclass(hint) or hasattr(hint, "_fields"), hint
        return {"$ref": f"#/components/schemas/{self._add(hint)}"}

    def _add(self, cls: Any) -> str:
        name: str = cls.__name__
        if name not in self.made:
            self.made[name] = {}  # it may hold itself
            names = [f.name for f in fields(cls)] if is_dataclass(cls) else list(cls._fields)
            hints = get_type_hints(cls)
            self.made[name] = {
                "type": "object",
                "description": (cls.__doc__ or "").strip().partition("\n")[0],
                "properties": {one: self.of(hints[one]) for one in names},
                "required": names,
            }
        return name


def document(
    pages: Iterable[Page], actions: Iterable[Action], downloads: Iterable[Download]
) -> dict[str, Any]:
    """Return the description."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        paths.setdefault(_path(page), {})["get"] = _get(page, schemas)
    for action in actions:
        paths.setdefault(_path(action.page), {})["post"] = _post(action, schemas)
    for download in downloads:
        paths.setdefault(PREFIX + download.path, {})["get"] = _file(download, schemas)
    tail = f"{PREFIX}/topics/{{topic}}/tail"
    paths[tail] = {"get": _tail(schemas)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kavka console",
            "version": __version__,
            "description": "The answers of the console's pages. Changes are sent as JSON, with the header "
            "Content-Type: application/json.",
        },
        "paths": paths,
        "components": {"schemas": schemas.made},
    }


def _path(page: Page) -> str:
    return PREFIX + ("/overview" if page.path == "/" else page.path)


def _get(page: Page, schemas: _Schemas) -> dict[str, Any]:
    return {
        "summary": page.summary,
        "parameters": _asked(page),
        "responses": _responses(schemas, _json(schemas.of(page.view)), "The view."),
    }


def _post(action: Action, schemas: _Schemas) -> dict[str, Any]:
    taken = action.page.parameters
    body = {
        "type": "object",
        "properties": {one.name: {**_schema(one), "description": one.summary} for one in taken},
        "required": [one.name for one in taken if one.required],
    }
    return {
        "summary": action.summary,
        "parameters": _of_path(action.page.path_parameters),
        "requestBody": {"required": True, "content": _json(body)},
        "responses": _responses(schemas, _json(schemas.of(Outcome)), "What was done."),
    }


def _file(download: Download, schemas: _Schemas) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}} for kind in download.media_types}
    return {
        "summary": download.summary,
        "parameters": _asked(download),
        "responses": _responses(schemas, content, "The file."),
    }


def _tail(schemas: _Schemas) -> dict[str, Any]:
    schemas.of(RecordView)
    return {
        "summary": "The records that come into a topic, as server-sent events: of each half second the newest, and "
        "how many there were.",
        "parameters": [
            {"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}},
            *(_of_query(one) for one in FILTERS),
        ],
        "responses": {
            "200": {
                "description": "Events `records` with the JSON {records, seen, kept}; an event `failure` ends it.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
    }


def _asked(page: Page | Download) -> list[dict[str, Any]]:
    return [
        *_of_path(page.path_parameters),
        *(_of_query(one) for one in page.parameters if one.kind != "secret"),
    ]


def _of_path(parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": summary,
            "schema": {"type": "string"},
        }
        for name, summary in parameters.items()
    ]


def _of_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.summary,
        "schema": _schema(parameter),
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    kinds = {"integer": "integer", "flag": "boolean"}
    made: dict[str, Any] = {"type": kinds.get(parameter.kind, "string")}
    if parameter.kind == "secret":
        made["format"] = "password"
    if parameter.choices:
        made["enum"] = list(parameter.choices)
    if parameter.default:
        made["default"] = _default(parameter)
    if parameter.minimum is not None:
        made["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        made["maximum"] = parameter.maximum
    return made


def _default(parameter: Parameter) -> str | int | bool:
    if parameter.kind == "integer":
        return int(parameter.default)
    return parameter.default == "true" if parameter.kind == "flag" else parameter.default


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _responses(schemas: _Schemas, content: dict[str, Any], description: str) -> dict[str, Any]:
    failure = _json(schemas.of(Failure))
    return {
        "200": {"description": description, "content": content},
        "default": {"description": "Why there is no answer.", "content": failure},
    }
