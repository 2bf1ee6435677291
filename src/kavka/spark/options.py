"""Options of the source, and how all options are checked: the names and meanings of Spark's own Kafka connector. Pure.

Parsing refuses what Spark's connector refuses, and also names that neither knows, because a misspelt option would
otherwise be obeyed by its default. Every refusal is a ConnectorError of one sentence.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kavka.client.config import CONSUMER
from kavka.client.setting_names import unknown_names
from kavka.core.java_patterns import BadJavaPattern, java_pattern
from kavka.ids import TopicPartition
from kavka.settings.declaration import Catalogue
from kavka.settings.durations import duration_ms
from kavka.spark.errors import ConnectorError

log = logging.getLogger(__name__)

EARLIEST, LATEST = -2, -1
"""Meanings of the specific offsets -2 and -1."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The named topics, with all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All topics with a match anywhere in the name, as in Spark's connector, except internal ones."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Selection = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same end of every partition: EARLIEST or LATEST."""

    offset: int


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset for each partition, among them EARLIEST and LATEST."""

    offsets: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of each partition with at least this timestamp."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """As AtTime, with a timestamp for each partition."""

    timestamps_ms: dict[TopicPartition, int]


Bound = Everywhere | Specific | AtTime | AtTimes


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of a read."""

    selection: Selection
    starting: Bound
    ending: Bound
    latest_without_match: bool
    """True if a starting time after the last record means the end of the partition; else it is an error."""
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    group_id: str | None
    """The group to which a streaming query commits what it has processed."""
    client: dict[str, str]
    """Settings of the Kafka client, without the prefix `kafka.`."""
    is_latest_view: bool = False
    """True if keys are reduced to their last records: the view `latest`."""
    view_cache: str | None = None
    """The directory on each worker in which a batch read keeps the view for the next one."""


SELECTIONS = ("subscribe", "subscribePattern", "assign")
SOURCE_NAMES = (
    *SELECTIONS, "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "failOnDataLoss", "includeHeaders", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRecordsPerPartition", "groupIdPrefix", "groupId", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "view", "viewCache",
)  # fmt: skip
SINK_NAMES = (
    "topic", "includeHeaders", "checkpointLocation", "queryName", "path", "deliveryGuarantee", "sinkId", "writeId",
    "onNewCheckpoint",
)  # fmt: skip
_OF_CATALOGUES = frozenset(
    {"provider", "owner", "comment", "location", "external", "is_managed_location", "collation"}
)
"""Properties that Spark puts among the options of a table in a catalogue."""
_FORBIDDEN_TO_SOURCE = {
    "auto.offset.reset": "set startingOffsets instead",
    "enable.auto.commit": "the source commits nothing by itself; set groupId to publish its progress",
    "key.deserializer": "keys are always binary; cast them in the data frame",
    "value.deserializer": "values are always binary; cast them in the data frame",
    "interceptor.classes": "interceptors would see records in no defined order",
}


def schema_includes_headers(options: Mapping[str, str]) -> bool:
    """Check the options of a frame, view or table before its use is known; return whether it has headers.

    Raise ConnectorError for what neither a batch nor a stream takes. What only writes names nothing to read from. A
    table of a catalogue comes with properties that Spark adds, and with each option a second time, as `option.<name>`.
    """
    given = lower_names(options)
    if "provider" in given:
        given = {
            name: value
            for name, value in given.items()
            if name not in _OF_CATALOGUES and not name.startswith("option.")
        }
    if not any(name.lower() in given for name in SELECTIONS):
        refuse_unknown(given)
        client_settings(given, {}, CONSUMER)
        return boolean(given, "includeHeaders", False)
    try:
        return parse_source(given, streaming=True).include_headers
    except ConnectorError:
        return parse_source(given, streaming=False).include_headers


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options of `spark.read` or `spark.readStream`; names may have any case. Raise ConnectorError."""
    given = lower_names(options)
    refuse_unknown(given)
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConnectorError(
            f"startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}."
        )
    _check_trigger_bounds(given)
    is_latest_view = _is_latest_view(given, streaming)
    return SourceOptions(
        selection=_selection(given),
        starting=_starting(
            given, EARLIEST if is_latest_view or not streaming else LATEST, streaming
        ),
        ending=_ending(given, streaming),
        latest_without_match=strategy == "latest",
        fail_on_data_loss=boolean(given, "failOnDataLoss", True),
        include_headers=boolean(given, "includeHeaders", False),
        max_offsets_per_trigger=_positive(given, "maxOffsetsPerTrigger"),
        min_offsets_per_trigger=_positive(given, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", 15 * 60_000),
        min_partitions=_positive(given, "minPartitions"),
        max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
        group_id=filled(given, "groupId"),
        client=client_settings(given, _FORBIDDEN_TO_SOURCE, CONSUMER),
        is_latest_view=is_latest_view,
        view_cache=filled(given, "viewCache"),
    )


def _is_latest_view(given: Mapping[str, str], streaming: bool) -> bool:
    """Return whether `view` is latest. Raise ConnectorError for options that do not go with it."""
    view = given.get("view", "records").lower()
    if view not in ("records", "latest"):
        raise ConnectorError(f"view must be records or latest, not {view!r}.")
    if view == "records":
        if "viewcache" in given:
            raise ConnectorError("The option viewCache means nothing without view latest.")
        return False
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if name.lower() in given:
            raise ConnectorError(
                f"The option {name} does not go with view latest: a task has a whole partition."
            )
    if streaming and "viewcache" in given:
        raise ConnectorError(
            "The option viewCache is of batch queries; a stream has its checkpoint."
        )
    if not streaming and any(name.startswith("starting") for name in given):
        raise ConnectorError(
            "A batch query with view latest reads each partition from its beginning: leave out startingOffsets and "
            "startingTimestamp; endingOffsets and endingTimestamp give an earlier state."
        )
    return True


def warn_of_group(options: SourceOptions) -> None:
    """Log Spark's own warning about `kafka.group.id`.

    As there, the group is only the name under which the client reads: nothing is committed to it and no query joins
    it, so that brokers without access control see nothing of it. `groupId` is what publishes progress.
    """
    if options.client.get("group.id"):
        log.warning(
            "Kafka option 'kafka.group.id' has been set on this query, it is not recommended to set this option: "
            "concurrent queries with the same group id interfere with each other, and so may a restarted query with "
            "its previous run. Nothing is committed to it; set groupId to publish progress. group=%s",
            options.client["group.id"],
        )


def lower_names(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def refuse_unknown(
    given: Mapping[str, str], known: tuple[str, ...] = (*SOURCE_NAMES, *SINK_NAMES)
) -> None:
    """Raise for the first name that is neither an option nor begins with `kafka.`.

    A view in SQL has one list of options, so a read passes over those of a write, and a write over those of a read that
    says what is read.
    """
    if not given:
        raise ConnectorError(
            "The query has no options: Spark 4.3 does not pass those of a catalogue's table to reads and writes; give "
            "them in the query, as in SELECT * FROM t WITH ('kafka.bootstrap.servers' = 'host:port', ...), or create a "
            "temporary view instead of the table."
        )
    names = {name.lower(): name for name in known}
    for name in given:
        if name in names or name.startswith("kafka."):
            continue
        near = difflib.get_close_matches(name, [*names, "kafka.bootstrap.servers"], 1, 0.75)
        hint = f"; did you mean {names.get(near[0], near[0])}?" if near else "."
        raise ConnectorError(f"The option {name!r} is not one of format kavka{hint}")


def client_settings(
    given: Mapping[str, str], forbidden: Mapping[str, str], catalogue: Catalogue
) -> dict[str, str]:
    """Return what begins with `kafka.` without that prefix, checked."""
    settings = {
        name.removeprefix("kafka."): value
        for name, value in given.items()
        if name.startswith("kafka.")
    }
    for name, reason in forbidden.items():
        if name in settings:
            raise ConnectorError(f"The option kafka.{name} is not supported: {reason}.")
    for name, near in unknown_names(catalogue, settings).items():
        hint = f"; did you mean kafka.{near}?" if near else "."
        raise ConnectorError(f"The option kafka.{name} is no setting of Kafka's clients{hint}")
    if not settings.get("bootstrap.servers", "").strip():
        raise ConnectorError(
            "The option kafka.bootstrap.servers is missing: give it as host:port,...."
        )
    return settings


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in SELECTIONS if name.lower() in given]
    if len(chosen) != 1:
        given_options = " and ".join(chosen) or "none"
        raise ConnectorError(
            f"Exactly one of subscribe, subscribePattern and assign must be given, not {given_options}."
        )
    text = given[chosen[0].lower()].strip()
    if not text:
        raise ConnectorError(f"The option {chosen[0]} is empty.")
    match chosen[0]:
        case "subscribe":
            return Subscribe(_topics(text))
        case "subscribePattern":
            return SubscribePattern(_pattern(text))
        case _:
            return Assign(_assigned(text))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not topics:
        raise ConnectorError("The option subscribe names no topic.")
    return topics


def _pattern(text: str) -> str:
    try:
        java_pattern(text)
    except BadJavaPattern as error:
        raise ConnectorError(
            f"subscribePattern {text!r} is not a regular expression of Java that can be used: {error}."
        ) from None
    return text


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    form = 'The option assign must be JSON such as {"topic": [0, 1]}'
    topics = _json_object(text, form)
    pairs = []
    for topic, partitions in topics.items():
        if not isinstance(partitions, list) or not all(_is_number(number) for number in partitions):
            raise ConnectorError(f"{form}, but for {topic!r} it has {partitions!r}.")
        pairs += [TopicPartition(topic, number) for number in partitions]
    if not pairs:
        raise ConnectorError("The option assign names no partition.")
    return tuple(sorted(set(pairs)))


def _starting(given: Mapping[str, str], default: int, streaming: bool) -> Bound:
    bound = _bound(given, "starting", Everywhere(default))
    if not streaming and LATEST in _ends(bound):
        raise ConnectorError("startingOffsets of a batch query cannot be latest.")
    return bound


def _ending(given: Mapping[str, str], streaming: bool) -> Bound:
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name.lower() in given:
                raise ConnectorError(f"The option {name} is not valid in a streaming query.")
    bound = _bound(given, "ending", Everywhere(LATEST))
    if EARLIEST in _ends(bound):
        raise ConnectorError("endingOffsets cannot be earliest.")
    return bound


def _ends(bound: Bound) -> set[int]:
    match bound:
        case Everywhere(offset):
            return {offset}
        case Specific(offsets):
            return set(offsets.values())
        case _:
            return set()


def _bound(given: Mapping[str, str], side: str, default: Bound) -> Bound:
    """Read one side's options; a timestamp for all wins over timestamps by partition, and these over offsets."""
    timestamp = given.get(f"{side}timestamp")
    if timestamp is not None:
        return AtTime(_number(f"{side}Timestamp", timestamp, minimum=0))
    by_partition = given.get(f"{side}offsetsbytimestamp")
    if by_partition is not None:
        return AtTimes(_by_partition(f"{side}OffsetsByTimestamp", by_partition, 0))
    offsets = given.get(f"{side}offsets")
    if offsets is None:
        return default
    match offsets.strip().lower():
        case "earliest":
            return Everywhere(EARLIEST)
        case "latest":
            return Everywhere(LATEST)
        case _:
            return Specific(_by_partition(f"{side}Offsets", offsets, EARLIEST))


def _by_partition(name: str, text: str, minimum: int) -> dict[TopicPartition, int]:
    form = f'The option {name} must be JSON such as {{"topic": {{"0": 23}}}}'
    if name.endswith("Offsets"):
        form = form.replace(" must be ", " must be earliest, latest or ")
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise ConnectorError(f"{form}, but for {topic!r} it has {partitions!r}.")
        for partition, number in partitions.items():
            if not partition.isdecimal() or not _is_number(number, minimum):
                raise ConnectorError(f"{form}, but for {topic}-{partition} it has {number!r}.")
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _is_number(value: object, minimum: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise ConnectorError(f"{form}, not {text!r}.") from None
    if not isinstance(value, dict):
        raise ConnectorError(f"{form}, not {text!r}.")
    return value


def filled(given: Mapping[str, str], name: str) -> str | None:
    """Return an option, None when it is not given. Raise ConnectorError for an empty one."""
    value = given.get(name.lower())
    if value is not None and not value.strip():
        raise ConnectorError(f"The option {name} is empty.")
    return value


def boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    """Return an option that is true or false. Raise ConnectorError for another text."""
    words = {"true": True, "false": False}
    return _read(given, name, default, lambda text: words[text.lower()], "true or false")


def _positive(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    return None if value is None else _number(name, value, minimum=1)


def _check_trigger_bounds(given: Mapping[str, str]) -> None:
    minimum, maximum = (
        _positive(given, "minOffsetsPerTrigger"),
        _positive(given, "maxOffsetsPerTrigger"),
    )
    if minimum is not None and maximum is not None and minimum > maximum:
        raise ConnectorError(
            f"minOffsetsPerTrigger ({minimum}) must not be above maxOffsetsPerTrigger ({maximum})."
        )


def _number(name: str, text: str, *, minimum: int) -> int:
    def checked(text: str) -> int:
        number = int(text)
        if number < minimum:
            raise ValueError
        return number

    expected = f"a whole number of at least {minimum}"
    return _read({name.lower(): text}, name, 0, checked, expected)


def _duration_ms(given: Mapping[str, str], name: str, default: int) -> int:
    read = partial(duration_ms, default_unit="ms")
    return _read(given, name, default, read, "a duration such as 500ms, 20s or 15m")


def _read(
    given: Mapping[str, str], name: str, default: T, read: Callable[[str], T], expected: str
) -> T:
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        return read(text.strip())
    except (ValueError, KeyError):
        raise ConnectorError(f"The option {name} must be {expected}, not {text!r}.") from None
