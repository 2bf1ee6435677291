"""Errors of schemas, payloads and the schema registry."""

from __future__ import annotations

from kavka.errors import PickledError


class SchemaError(PickledError):
    """Base of the errors of schemas: a key or value cannot be written or read with its schema."""


class SchemaParseError(SchemaError, ValueError):
    """A schema is not one: it is malformed, or of a kind that is not supported."""


class MissingExtra(SchemaError, ImportError):
    """A library is not installed; the message says what to install."""

    def __init__(self, library: str) -> None:
        """Name the library."""
        super().__init__(
            f"{library} is missing: install it with `pip install 'kavka[schemas]'`", name=library
        )


class PayloadError(SchemaError, ValueError):
    """Bytes are not what their schema says, or a value does not fit the schema that it is to be written with."""


class FramingError(PayloadError):
    """Bytes do not begin as a serializer of a schema registry writes them."""


class RegistryError(SchemaError):
    """The registry refuses a request."""

    def __init__(self, what: str, status: int, code: int, message: str) -> None:
        """Take what was asked for, the status of HTTP, and the registry's own code and sentence."""
        super().__init__(f"{what}: {message} (error code {code})")
        self.status = status
        self.code = code


class SchemaNotFound(RegistryError):
    """The registry does not have a subject, a version or a schema with an id."""


class IncompatibleSchema(RegistryError):
    """A schema is not compatible with the earlier ones of its subject."""


class RegistryUnavailable(SchemaError, ConnectionError):
    """No server of the registry answers."""
