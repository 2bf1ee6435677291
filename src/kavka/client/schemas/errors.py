"""Errors of schemas, payloads and the schema registry."""

from __future__ import annotations


class SchemaError(Exception):
    """Base of the errors of schemas: a key or value cannot be written or read with its schema."""


class SchemaParseError(SchemaError, ValueError):
    """A schema is not one: it is malformed, or of a kind that is not supported."""


class MissingExtra(SchemaError, ImportError):
    """A library is not installed; the message says what to install."""
