"""The bodies of changes: bounded, and taken only from a page of this console, or as JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from kavka.console.failures import Refused, bad_request
from kavka.console.formats import is_text
from kavka.console.security import TOKEN_FIELD, Tokens, refusal_of_change
from kavka.console.sentences import say


async def form_of(
    request: Request, tokens: Tokens, browser: str, most_bytes: int
) -> dict[str, str]:
    """Return the texts of a form that a page of this console holds for this browser. Raise Refused."""
    _require_small(request, most_bytes)
    try:
        given = await request.form()
    except (
        ValueError
    ) as error:  # a charset of the header that the form is not in, or that there is not
        raise bad_request(say("The body is no form: {error}.", error=error)) from error
    form = {k: v for k, v in given.items() if isinstance(v, str)}
    for name, value in form.items():
        if not is_text(value):
            raise bad_request(say("{name} has half of a character (a lone surrogate).", name=name))
    _require_own(request, has_token=tokens.is_valid(browser, form.get(TOKEN_FIELD, "")))
    return form


async def json_of(request: Request, most_bytes: int) -> Any:
    """Return a body of JSON, None for one that is not understood. Raise Refused."""
    require_json(request, most_bytes)
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):  # brackets a thousand deep
        return None


def require_json(request: Request, most_bytes: int) -> None:
    """Refuse a change by its headers, unless it is small and JSON. Raise Refused."""
    _require_small(request, most_bytes)
    _require_own(request, has_token=False)


def _require_small(request: Request, most_bytes: int) -> None:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 18 or int(length) > most_bytes:
        raise bad_request(
            say(
                "The body has no length, or more than {most_bytes} bytes.",
                most_bytes=most_bytes,
            )
        )


def _require_own(request: Request, *, has_token: bool) -> None:
    refusal = refusal_of_change(request.headers, has_token=has_token)
    if refusal is not None:
        raise Refused(refusal)
