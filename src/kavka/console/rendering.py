"""Templates: Jinja2, which escapes everything, with the filters that write numbers, sizes and times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2

from kavka import __version__
from kavka.console import formats
from kavka.console.history.charts import amount
from kavka.console.languages import LANGUAGES, SENTENCES, Translation
from kavka.console.sentences import Sentence, say

HERE: Final = Path(__file__).parent
ASSETS: Final = HERE / "assets"


SCRIPT_TEXTS: Final = {
    "again": say("Go on"),
    "days": say("{amount} d"),
    "ended": say(
        "Following ended: the console or the cluster does not answer. Load the page again."
    ),
    "follow": say("Follow live"),
    "following": say("Following: {total} records since you began, {rate}/s."),
    "hours": say("{amount} h"),
    "minutes": say("{amount} min"),
    "overflow": say(
        "Following: {total} records since you began, {rate}/s; {left} of the last half second are not shown."
    ),
    "pause": say("Pause"),
    "paused": say("Paused. Records since you began: {total}."),
    "seconds": say("{amount} s"),
    "stale": say(
        "Not refreshed since {time}: the console or the cluster does not answer. Trying again."
    ),
    "time": say("Time"),
    "waiting": say("Following: waiting for records …"),
}
"""The sentences of the script; it puts the values in, so the braces stay here."""


NOUNS: Final = {
    str(noun): noun
    for noun in (
        say("alerts"),
        say("events"),
        say("flows"),
        say("groups"),
        say("partitions"),
        say("quotas"),
        say("subjects"),
        say("topics"),
        say("users"),
    )
} | {"acls": say("ACLs"), "transactions": say("transactional ids")}
"""The things that lists in pages are of. A name is one word without capitals: a label of a template is translated."""


def environment(language: str = "en") -> jinja2.Environment:
    """Return the templates in a language. All values are escaped; a name that a template does not have is an error."""
    _, table = LANGUAGES[language]
    made = jinja2.Environment(
        extensions=[Translation] if table else [],
        finalize=_in_language(SENTENCES[language]),
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=formats.count_text,
        size=formats.size_text,
        rate=formats.rate_text,
        seconds=formats.seconds_text,
        span=formats.span_text,
        when=formats.time_text,
        amount=amount,
        iso=formats.iso_time,
        part=part_of_path,
        query=query_with,
    )
    made.globals.update(
        script_texts=SCRIPT_TEXTS,
        nouns=NOUNS,
        translations=table,
        version=__version__,
        assets_version=_assets_version(),
    )
    return made


def _in_language(table: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return what Jinja2 calls for each value that a template shows, before it is escaped."""

    def finalize(value: Any) -> Any:
        return value.translated(table) if isinstance(value, Sentence) else value

    return finalize


def part_of_path(text: str) -> str:
    """Return a name as one part of a path."""
    return quote(text, safe="", errors="replace")


def query_with(values: Mapping[str, str], **changes: Any) -> str:
    """Return an address's query: values, with some changed, without those that are empty; `?` alone for none."""
    merged = {**values, **{name: str(value) for name, value in changes.items()}}
    return "?" + urlencode(
        {name: value for name, value in merged.items() if value}, errors="replace"
    )


def _assets_version() -> str:
    """Return what changes with the files that pages load, so that browsers may keep them."""
    digest = hashlib.sha256()
    for path in sorted(ASSETS.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
