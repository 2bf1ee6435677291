"""A client of Confluent's Schema Registry, by its REST API, for calls that block.

What the registry says of an id does not change, so it is asked once. Any thread may call.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final, Protocol

from kavka.client.schemas.errors import (
    IncompatibleSchema,
    RegistryError,
    RegistryUnavailable,
    SchemaNotFound,
)
from kavka.values import frozen

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_SERVER_ERROR: Final = 500
_SETTINGS: Final = frozenset({
    "url", "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location", "ssl.certificate.location",
    "ssl.key.location", "ssl.key.password", "request.timeout.ms",
})  # fmt: skip


@frozen
class SchemaReference:
    """A schema that another one imports by a name."""

    name: str
    subject: str
    version: int


@frozen
class Schema:
    """A schema as the registry has it; `kind` is AVRO, JSON or PROTOBUF."""

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()


@frozen
class RegisteredSchema:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: Schema


class SchemaSource(Protocol):
    """A source of the schemas that values were written with."""

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id. Raise SchemaNotFound, RegistryUnavailable."""
        ...

    def resolved(self, schema: Schema) -> dict[str, Schema]:
        """Return what a schema refers to, directly or not, by name, each after what it refers to itself."""
        ...


class SchemaRegistry:
    """A registry at one address, or at several of the same registry.

    Settings have the names of Confluent's Python client: `url` (several with commas), `basic.auth.user.info`
    (user:password), `bearer.auth.token`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`,
    `ssl.key.password`; and `request.timeout.ms` (30000).
    """

    def __init__(self, settings: Mapping[str, Any] | str) -> None:
        """Take settings, or a URL alone; nothing is requested yet. Raise ValueError for a setting that is not known."""
        given = {"url": settings} if isinstance(settings, str) else dict(settings)
        unknown = sorted(set(given) - _SETTINGS)
        if unknown:
            raise ValueError(f"{unknown[0]} is no setting of the schema registry")
        self._urls = [url.strip().rstrip("/") for url in str(given.get("url", "")).split(",")]
        for url in self._urls:
            parts = urllib.parse.urlsplit(url)
            if "@" in parts.netloc:  # it is not repeated, here or in a reason: it holds a password
                raise ValueError(
                    "the URL of the schema registry has a user: give basic.auth.user.info"
                )
            if parts.scheme not in ("http", "https"):
                raise ValueError(
                    f"{url!r} is no URL of a schema registry: give http:// or https://"
                )
        self._timeout_s = int(given.get("request.timeout.ms", 30_000)) / 1000
        self._headers = {"Accept": f"{_CONTENT_TYPE}, application/json", **_authorization(given)}
        self._opener = _opener(given)
        self._lock = threading.Lock()
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema], int] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}

    # Schemas

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id. Raise SchemaNotFound, RegistryUnavailable, RegistryError."""
        with self._lock:
            known = self._by_id.get(schema_id)
        if known is None:
            found = self._request("GET", f"/schemas/ids/{schema_id}", what=f"schema {schema_id}")
            known = _schema(found)
            with self._lock:
                self._by_id[schema_id] = known
        return known

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Add a schema to a subject, unless it has it, and return its id. Raise IncompatibleSchema, RegistryError."""
        return self._id_of(subject, schema, "/versions", normalize)

    def look_up(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Return the id of a schema that the subject has. Raise SchemaNotFound, RegistryError."""
        return self._id_of(subject, schema, "", normalize)

    def _id_of(self, subject: str, schema: Schema, path: str, normalize: bool) -> int:
        with self._lock:
            known = self._ids.get((subject, schema))
        if known is None:
            query = "?normalize=true" if normalize else ""
            document = self._request(
                "POST",
                f"/subjects/{_quoted(subject)}{path}{query}",
                _body(schema),
                what=f"subject {subject}",
            )
            known = int(document["id"])
            with self._lock:
                self._ids[subject, schema] = known
                self._by_id.setdefault(known, schema)
        return known

    def version(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """Return a version of a subject. Raise SchemaNotFound, RegistryError."""
        if isinstance(version, int):
            with self._lock:
                known = self._versions.get((subject, version))
            if known is not None:
                return known
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        found = self._request("GET", path, what=f"version {version} of subject {subject}")
        made = RegisteredSchema(subject, int(found["version"]), int(found["id"]), _schema(found))
        with self._lock:
            self._versions[subject, made.version] = made
            self._by_id.setdefault(made.schema_id, made.schema)
        return made

    def resolved(self, schema: Schema) -> dict[str, Schema]:
        """Return what a schema refers to, directly or not, by name, each after what it refers to itself."""
        found: dict[str, Schema] = {}
        for reference in schema.references:
            if reference.name not in found:
                referred = self.version(reference.subject, reference.version).schema
                found |= self.resolved(referred)
                found[reference.name] = referred
        return found

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return list(self._request("GET", "/subjects", what="the subjects"))

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject."""
        path = f"/subjects/{_quoted(subject)}/versions"
        return [int(one) for one in self._request("GET", path, what=f"subject {subject}")]

    def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject; its schemas stay readable by id, unless that is `permanent`. Return its versions."""
        path = f"/subjects/{_quoted(subject)}{'?permanent=true' if permanent else ''}"
        found = [int(one) for one in self._request("DELETE", path, what=f"subject {subject}")]
        with self._lock:
            self._ids = {key: one for key, one in self._ids.items() if key[0] != subject}
            self._versions = {key: one for key, one in self._versions.items() if key[0] != subject}
        return found

    # Compatibility

    def incompatibilities(
        self, subject: str, schema: Schema, version: int | str = "latest"
    ) -> list[str]:
        """Return why a schema is not compatible with a version; none where it is."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/{version}?verbose=true"
        document = self._request("POST", path, _body(schema), what=f"subject {subject}")
        if document["is_compatible"]:
            return []
        return [str(one) for one in document.get("messages") or ["the registry gives no reason"]]

    def compatibility(self, subject: str | None = None) -> str:
        """Return the level of a subject or, without one, of the registry, such as BACKWARD."""
        path = "/config" if subject is None else f"/config/{_quoted(subject)}?defaultToGlobal=true"
        document = self._request("GET", path, what="the compatibility level")
        return str(document.get("compatibilityLevel") or document.get("compatibility"))

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject or, without one, of the registry."""
        path = "/config" if subject is None else f"/config/{_quoted(subject)}"
        self._request("PUT", path, {"compatibility": level}, what="the compatibility level")

    # HTTP

    def _request(self, method: str, path: str, body: Any = None, *, what: str) -> Any:
        """Ask each server until one answers. Raise RegistryError for a refusal, RegistryUnavailable."""
        reasons = []
        for url in self._urls:
            try:
                return self._ask(url, method, path, body, what)
            except RegistryError as error:
                if error.status < _SERVER_ERROR:
                    raise
                reasons.append(f"{url}: {error}")
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                reasons.append(f"{url}: {reason}")
        raise RegistryUnavailable(f"the schema registry does not answer: {'; '.join(reasons)}")

    def _ask(self, url: str, method: str, path: str, body: Any, what: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if data is None else {"Content-Type": _CONTENT_TYPE})
        request = urllib.request.Request(url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return _parsed(response.read(), what, response.status)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(what, error.code, error.read()) from None


def _opener(given: Mapping[str, Any]) -> urllib.request.OpenerDirector:
    """Return what opens URLs, with the certificates that are given. Raise ValueError when they cannot be read."""
    try:
        context = ssl.create_default_context(cafile=given.get("ssl.ca.location"))
        if "ssl.certificate.location" in given:
            context.load_cert_chain(
                given["ssl.certificate.location"],
                given.get("ssl.key.location"),
                given.get("ssl.key.password"),
            )
    except OSError as error:  # ssl.SSLError is one
        raise ValueError(f"a certificate of the schema registry cannot be read: {error}") from error
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))


def _authorization(given: Mapping[str, Any]) -> dict[str, str]:
    if "bearer.auth.token" in given:
        return {"Authorization": f"Bearer {given['bearer.auth.token']}"}
    if "basic.auth.user.info" in given:
        encoded = base64.b64encode(str(given["basic.auth.user.info"]).encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
    return {}


def _parsed(data: bytes, what: str, status: int) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise RegistryError(
            what, status, status, "the answer is no JSON: is it a registry?"
        ) from None


def _refusal(what: str, status: int, data: bytes) -> RegistryError:
    """Return the error of a refused request; a proxy's answer need not be JSON."""
    try:
        document = json.loads(data)
        code, message = int(document.get("error_code", status)), str(document.get("message", ""))
    except (ValueError, AttributeError, TypeError):
        code, message = status, data[:200].decode("utf-8", "replace").strip()
    kinds = {_NOT_FOUND: SchemaNotFound, _CONFLICT: IncompatibleSchema}
    return kinds.get(status, RegistryError)(what, status, code, message or f"status {status}")


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _schema(found: Mapping[str, Any]) -> Schema:
    references = tuple(
        SchemaReference(one["name"], one["subject"], int(one["version"]))
        for one in found.get("references") or ()
    )
    return Schema(found["schema"], found.get("schemaType") or AVRO, references)


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version}
            for one in schema.references
        ]
    return body


class SchemaFiles:
    """Schemas from files, where there is no registry: by id, and one for every other id."""

    def __init__(
        self, default: Schema | None = None, by_id: Mapping[int, Schema] | None = None
    ) -> None:
        """Take the schemas; `default` is that of the ids that are not in `by_id`."""
        self._default = default
        self._by_id = dict(by_id or {})

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id. Raise SchemaNotFound."""
        found = self._by_id.get(schema_id, self._default)
        if found is None:
            raise SchemaNotFound(
                f"schema {schema_id}", _NOT_FOUND, _NOT_FOUND, "no file is given for it"
            )
        return found

    def resolved(self, schema: Schema) -> dict[str, Schema]:
        """Return nothing: a file has its whole schema."""
        return {}
