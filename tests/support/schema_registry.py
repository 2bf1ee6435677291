"""A schema registry in the test's process, with the wire API of Confluent's; it stores what it is given."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """Subjects, their versions, and the requests that came."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.incompatible: set[str] = set()
        """Subjects that take no other schema."""
        self.levels: dict[str, str] = {"": "BACKWARD"}
        self.fault: tuple[int, bytes] | None = None
        """Status and body of every reply from now on."""
        self.url = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        for verb, pattern, act in self._routes():
            found = re.fullmatch(pattern, path)
            if verb == method and found:
                return act(body, *(unquote(one) for one in found.groups() if one))
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _routes(self) -> list[tuple[str, str, Any]]:
        return [
            ("GET", r"/schemas/ids/(\d+)", self._by_id),
            ("POST", r"/subjects/([^/]+)/versions", self._register),
            ("POST", r"/subjects/([^/]+)", self._look_up),
            ("GET", r"/subjects", lambda _: (200, list(self.subjects))),
            ("GET", r"/subjects/([^/]+)/versions", lambda _, s: (200, [n + 1 for n in range(len(self.subjects[s]))])),
            ("GET", r"/subjects/([^/]+)/versions/(latest|\d+)", self._version),
            ("DELETE", r"/subjects/([^/]+)", lambda _, s: (200, [n + 1 for n in range(len(self.subjects.pop(s)))])),
            ("POST", r"/compatibility/subjects/([^/]+)/versions/.*", self._compatible),
            ("GET", r"/config(?:/([^/]+))?", self._level),
            ("PUT", r"/config(?:/([^/]+))?", self._set_level),
        ]  # fmt: skip

    def _by_id(self, _: Any, schema_id: str) -> tuple[int, Any]:
        if int(schema_id) > len(self.schemas):
            return 404, {"error_code": 40403, "message": f"Schema {schema_id} not found"}
        return 200, self.schemas[int(schema_id) - 1]

    def _register(self, body: Any, subject: str) -> tuple[int, Any]:
        known = self.subjects.setdefault(subject, [])
        if subject in self.incompatible and known:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        if body not in self.schemas:
            self.schemas.append(body)
        schema_id = self.schemas.index(body) + 1
        if schema_id not in known:
            known.append(schema_id)
        return 200, {"id": schema_id}

    def _look_up(self, body: Any, subject: str) -> tuple[int, Any]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if body not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        schema_id = self.schemas.index(body) + 1
        version = self.subjects[subject].index(schema_id) + 1
        return 200, {**body, "subject": subject, "version": version, "id": schema_id}

    def _version(self, _: Any, subject: str, version: str) -> tuple[int, Any]:
        known = self.subjects.get(subject)
        if not known:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(known) if version == "latest" else int(version)
        if number > len(known):
            return 404, {"error_code": 40402, "message": f"Version {number} not found."}
        schema_id = known[number - 1]
        return 200, {
            **self.schemas[schema_id - 1],
            "subject": subject,
            "version": number,
            "id": schema_id,
        }

    def _compatible(self, body: Any, subject: str) -> tuple[int, Any]:
        if subject in self.incompatible:
            return 200, {"is_compatible": False, "messages": ["a field is missing"]}
        return 200, {"is_compatible": True}

    def _level(self, _: Any, subject: str | None = None) -> tuple[int, Any]:
        return 200, {"compatibilityLevel": self.levels.get(subject or "", self.levels[""])}

    def _set_level(self, body: Any, subject: str | None = None) -> tuple[int, Any]:
        self.levels[subject or ""] = body["compatibility"]
        return 200, body


def _handler(server: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            if isinstance(body, dict):
                body = {
                    key: body[key]
                    for key in ("schema", "schemaType", "references", "compatibility")
                    if body.get(key)
                }
                if body.get("schemaType") == "AVRO":
                    del body["schemaType"]
            path = urlsplit(self.path).path
            server.requests.append((self.command, self.path, dict(self.headers)))
            if server.fault is not None:
                status, data = server.fault
            else:
                status, found = server.answer(self.command, path, body)
                data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def serve_registry() -> Iterator[RegistryServer]:
    """Serve a registry on a port of its own."""
    server = RegistryServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(server)) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        serving = threading.Thread(target=http.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield server
        finally:
            http.shutdown()
            serving.join()
