"""The cluster as one user sees it: without topics and groups of others, changes only by role, records masked.

Pages ask `ScopedCluster` as they ask the connection. Calls of the admin client that are not known here are refused, so
a new page cannot show too much by oversight; a route whose need is the scope `cluster` has the client itself, because
its users may see everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import ConfigResource, ResourceType
from kavka.client.admin.groups import GroupDescription
from kavka.client.admin.nodes import LogDir
from kavka.client.admin.topics import NewTopic, TopicDescription
from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.producer import Producer
from kavka.console.access.masks import Masks
from kavka.console.access.roles import Need, Role, User
from kavka.console.alerts.service import Alerts
from kavka.console.connection import ClusterConnection
from kavka.console.failures import Failure, Refused
from kavka.console.history.groups import of_topics
from kavka.console.history.recorder import Chart, History
from kavka.console.history.series import Metric
from kavka.console.history.snapshot import Snapshot
from kavka.console.sampler import RateHistory, Sampler
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.subject import Services
from kavka.ids import TopicPartition

T = TypeVar("T")

_UNMASKED: Final = say(", and no mask that holds")


def scoped(
    services: Services, user: User, needed: Need, masks: Callable[[str], Masks] | None
) -> Services:
    """Return the services for a request of a user to a route with this need; `masks` are those of a topic."""
    is_unbounded = user.may_on_all(Role.ADMINISTRATOR) or needed.scope == "cluster"
    if is_unbounded and masks is None:
        return services
    cluster = ScopedCluster(services.cluster, None if is_unbounded else user, masks)
    sees_all = user.may_on_all(Role.VIEWER)
    sampler = services.sampler if sees_all else ScopedSampler(services.sampler, user)
    return replace(
        services,
        cluster=cast(ClusterConnection, cluster),
        sampler=cast(Sampler, sampler),
        history=cast(
            History, services.history if is_unbounded else ScopedRecorder(services.history, user)
        ),
        alerts=cast(Alerts, services.alerts if is_unbounded else _Closed()),
        # What a mask has covered is bytes; a schema could make readable what it did not find in them.
        registry=services.registry if masks is None else None,
    )


def forbidden(detail: Sentence) -> Refused:
    """Return the refusal of what a role does not include."""
    return Refused(
        Failure(
            403,
            say("Your role does not allow this"),
            detail,
            say("Ask an administrator of the console for a grant."),
        )
    )


def _needs_all(what: str = "", more: Sentence = NOTHING) -> Refused:
    """Return the refusal of what is for users with a role on everything."""
    return forbidden(
        say(
            "{what} needs a role on all topics and groups{more}.",
            what=as_is(what) if what else say("It"),
            more=more,
        )
    )


def _require_topic(user: User, role: Role, topic: str) -> None:
    if not user.may(role, topic=topic):
        raise forbidden(
            say(
                "It needs the role {role} on the topic {topic!r}.",
                role=role.label,
                topic=topic[:250],
            )
        )


def _require_group(user: User, role: Role, group: str) -> None:
    if not user.may(role, group=group):
        raise forbidden(
            say(
                "It needs the role {role} on the group {group!r}.",
                role=role.label,
                group=group[:250],
            )
        )


class ScopedCluster:
    """The connection for one user; None for one who may do everything, and whose records are masked."""

    def __init__(
        self, cluster: ClusterConnection, user: User | None, masks: Callable[[str], Masks] | None
    ) -> None:
        """Wrap the connection."""
        self._cluster = cluster
        self._user = user
        self._masks = masks or _no_masks
        self.options = cluster.options
        self.is_masked = masks is not None
        """True when records are masked, so that what reads them by another way is refused."""

    def masks(self, topic: str) -> bool:
        """Return whether masks hold in a topic."""
        return bool(self._masks(topic))

    def __getattr__(self, name: str) -> Any:
        """Refuse what is not known here: it would reach past the grants and the masks of the user."""
        raise _needs_all(name, _UNMASKED)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of clients, for users with a role on everything for whom no mask holds."""
        if self._user is not None or self.is_masked:
            raise _needs_all(more=_UNMASKED)
        return self._cluster.settings

    async def ask(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return what the admin client answers, as the user may see it."""
        user = self._user
        if user is None:
            return await self._cluster.ask(call)
        return await self._cluster.ask(lambda admin: call(ScopedAdmin(admin, user)))

    async def topics(self) -> dict[str, TopicDescription]:
        """Return the topics that the user may see."""
        found = await self._cluster.topics()
        return {name: topic for name, topic in found.items() if self._sees(name)}

    def forget_topics(self) -> None:
        """Ask again for all topics."""
        self._cluster.forget_topics()

    @asynccontextmanager
    async def consumer(self, **settings: str) -> AsyncIterator[Consumer]:
        """Open a consumer that reads topics of the user, and masks their records."""
        async with self._cluster.consumer(**settings) as consumer:
            yield cast(Consumer, ScopedConsumer(consumer, self._require, self._masks))

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """Open a producer that writes to topics which the user operates."""
        async with self._cluster.producer() as producer:
            yield cast(Producer, ScopedProducer(producer, self._user))

    def _sees(self, topic: str) -> bool:
        return self._user is None or self._user.may(Role.VIEWER, topic=topic)

    def _require(self, topic: str) -> None:
        if self._user is not None:
            _require_topic(self._user, Role.VIEWER, topic)


def _no_masks(topic: str) -> Masks:
    return Masks(())


class ScopedAdmin:
    """The calls of the admin client that pages make for a user with grants; others are refused."""

    def __init__(self, admin: Admin, user: User) -> None:
        """Wrap the client."""
        self._admin = admin
        self._user = user

    def __getattr__(self, name: str) -> Any:
        """Refuse a call that is not known."""
        raise _needs_all(name)

    # Topics

    async def describe_cluster(self, **options: Any) -> Any:
        """Return the brokers, which all users may see."""
        return await self._admin.describe_cluster(**options)

    async def describe_topics(self, names: Iterable[str] | None = None, **options: Any) -> Any:
        """Return topics of the user."""
        if names is not None:
            names = list(names)
            for name in names:
                _require_topic(self._user, Role.VIEWER, name)
        found = await self._admin.describe_topics(names, **options)
        return {name: topic for name, topic in found.items() if self._sees(name)}

    async def describe_log_dirs(self, *arguments: Any, **options: Any) -> Any:
        """Return the directories with the replicas of the user's topics."""
        found = await self._admin.describe_log_dirs(*arguments, **options)
        return {
            broker: answer
            if isinstance(answer, Exception)
            else {path: self._of_user(log_dir) for path, log_dir in answer.items()}
            for broker, answer in found.items()
        }

    def _of_user(self, log_dir: LogDir) -> LogDir:
        kept = {key: one for key, one in log_dir.replicas.items() if self._sees(key.topic)}
        return log_dir._replace(replicas=kept)

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], **options: Any) -> Any:
        """Return offsets of the user's topics."""
        self._require_all(Role.VIEWER, wanted)
        return await self._admin.list_offsets(wanted, **options)

    async def lags(self, positions: Mapping[TopicPartition, int], **options: Any) -> Any:
        """Return lags in the user's topics."""
        self._require_all(Role.VIEWER, positions)
        return await self._admin.lags(positions, **options)

    async def create_topics(self, new_topics: Sequence[NewTopic], **options: Any) -> Any:
        """Create topics whose names the user's prefixes have."""
        for new in new_topics:
            _require_topic(self._user, Role.OPERATOR, new.name)
        return await self._admin.create_topics(new_topics, **options)

    async def create_partitions(self, wanted: Mapping[str, Any], **options: Any) -> Any:
        """Add partitions to topics that the user operates."""
        for name in wanted:
            _require_topic(self._user, Role.OPERATOR, name)
        return await self._admin.create_partitions(wanted, **options)

    async def delete_topics(self, names: Sequence[str], **options: Any) -> Any:
        """Delete topics of which the user is administrator."""
        for name in names:
            _require_topic(self._user, Role.ADMINISTRATOR, name)
        return await self._admin.delete_topics(names, **options)

    # Settings

    async def describe_configs(self, resources: Iterable[ConfigResource], **options: Any) -> Any:
        """Return settings of brokers and of the user's topics."""
        resources = list(resources)
        for resource in resources:
            if resource.type != ResourceType.BROKER:
                self._require_resource(Role.VIEWER, resource)
        return await self._admin.describe_configs(resources, **options)

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Any], **options: Any
    ) -> Any:
        """Change settings of topics that the user operates."""
        for resource in changes:
            self._require_resource(Role.OPERATOR, resource)
        return await self._admin.incremental_alter_configs(changes, **options)

    def _require_resource(self, role: Role, resource: ConfigResource) -> None:
        if resource.type != ResourceType.TOPIC:
            raise _needs_all()
        _require_topic(self._user, role, resource.name)

    # Groups

    async def list_groups(self, *arguments: Any, **options: Any) -> Any:
        """Return groups of the user."""
        found = await self._admin.list_groups(*arguments, **options)
        return [one for one in found if self._user.may(Role.VIEWER, group=one.group_id)]

    async def describe_groups(self, group_ids: Iterable[str], **options: Any) -> Any:
        """Return groups of the user; their members have the partitions of the user's topics."""
        group_ids = list(group_ids)
        for group_id in group_ids:
            _require_group(self._user, Role.VIEWER, group_id)
        found = await self._admin.describe_groups(group_ids, **options)
        return {
            group_id: self._with_topics(one) if isinstance(one, GroupDescription) else one
            for group_id, one in found.items()
        }

    def _with_topics(self, group: GroupDescription) -> GroupDescription:
        members = [
            member._replace(assignment=[key for key in member.assignment if self._sees(key.topic)])
            for member in group.members
        ]
        return group._replace(members=members)

    async def list_group_offsets(self, group_id: str, *arguments: Any, **options: Any) -> Any:
        """Return what a group of the user has committed in the user's topics."""
        _require_group(self._user, Role.VIEWER, group_id)
        found = await self._admin.list_group_offsets(group_id, *arguments, **options)
        return {key: one for key, one in found.items() if self._sees(key.topic)}

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Any], **options: Any
    ) -> Any:
        """Set offsets of a group and in topics that the user operates."""
        _require_group(self._user, Role.OPERATOR, group_id)
        self._require_all(Role.OPERATOR, offsets)
        return await self._admin.alter_group_offsets(group_id, offsets, **options)

    async def delete_groups(self, group_ids: Iterable[str], **options: Any) -> Any:
        """Delete groups of which the user is administrator, with offsets in topics of the same role alone."""
        group_ids = list(group_ids)
        for group_id in group_ids:
            _require_group(self._user, Role.ADMINISTRATOR, group_id)
            offsets = await self._admin.list_group_offsets(group_id)
            if not all(self._user.may(Role.ADMINISTRATOR, topic=key.topic) for key in offsets):
                raise forbidden(
                    say(
                        "The group {group!r} has offsets in topics of which you are not administrator.",
                        group=group_id[:250],
                    )
                )
        return await self._admin.delete_groups(group_ids, **options)

    def _sees(self, topic: str) -> bool:
        return self._user.may(Role.VIEWER, topic=topic)

    def _require_all(self, role: Role, keys: Iterable[TopicPartition]) -> None:
        for topic in {key.topic for key in keys}:
            _require_topic(self._user, role, topic)


class ScopedProducer:
    """A producer for one user; None for one who may do everything."""

    def __init__(self, producer: Producer, user: User | None) -> None:
        """Wrap a producer."""
        self._producer = producer
        self._user = user

    async def send(self, topic: str, *arguments: Any, **options: Any) -> Any:
        """Write a record to a topic that the user operates."""
        if self._user is not None:
            _require_topic(self._user, Role.OPERATOR, topic)
        return await self._producer.send(topic, *arguments, **options)


_CONSUMER_CALLS: Final = frozenset(
    {"assignment", "position", "seek", "seek_to_beginning", "pause", "resume"}
)
"""Calls that are about partitions which were assigned."""


class ScopedConsumer:
    """A consumer for one user: other topics cannot be assigned, records are masked."""

    def __init__(
        self, consumer: Consumer, require: Callable[[str], None], masks_of: Callable[[str], Masks]
    ) -> None:
        """Wrap a consumer."""
        self._consumer = consumer
        self._require = require
        self._masks_of = masks_of

    def __getattr__(self, name: str) -> Any:
        """Return a call about assigned partitions; refuse others."""
        if name not in _CONSUMER_CALLS:
            raise _needs_all(name)
        return getattr(self._consumer, name)

    def assign(self, keys: Iterable[TopicPartition]) -> None:
        """Read these partitions."""
        keys = list(keys)
        for key in keys:
            self._require(key.topic)
        self._consumer.assign(keys)

    async def end_offsets(self, keys: Iterable[TopicPartition], *arguments: Any) -> Any:
        """Return the ends of partitions."""
        keys = list(keys)
        for key in keys:
            self._require(key.topic)
        return await self._consumer.end_offsets(keys, *arguments)

    async def poll(self, *arguments: Any) -> list[FetchedBatches]:
        """Return masked batches."""
        found = await self._consumer.poll(*arguments)
        masked = []
        for batches in found:
            masks = self._masks_of(batches.topic)
            masked.append(cast(FetchedBatches, MaskedBatches(batches, masks)) if masks else batches)
        return masked


class MaskedBatches:
    """Fetched batches whose records are masked."""

    def __init__(self, batches: FetchedBatches, masks: Masks) -> None:
        """Wrap batches."""
        self._batches = batches
        self._masks = masks
        self.topic_partition = batches.topic_partition
        self.topic = batches.topic
        self.partition = batches.partition
        self.first_offset = batches.first_offset

    @property
    def next_offset(self) -> int:
        """The offset after these batches, which ends before a record that cannot be returned."""
        return self._batches.next_offset

    def __len__(self) -> int:
        """Return how many records there are."""
        return len(self._batches)

    def records(self) -> list[ConsumerRecord]:
        """Return the records as the user may see them."""
        return [self._masks.apply(record) for record in self._batches.records()]


class _Closed:
    """A part for users with a role on everything."""

    def __getattr__(self, name: str) -> Any:
        """Refuse."""
        raise _needs_all()


class ScopedRecorder:
    """The history of the user's topics and groups; those of brokers and of the cluster need a role on everything."""

    def __init__(self, history: History, user: User) -> None:
        """Wrap the history."""
        self._history = history
        self._user = user
        # A reason may name topics and groups of others.
        self.note = history.note
        self.fault = history.fault
        if self.note and not user.may_on_all(Role.VIEWER):
            self.note = say(
                "The newest look at the cluster was not kept whole. Users with a role on everything see the reason."
            )

    def __getattr__(self, name: str) -> Any:
        """Refuse what is not known here."""
        raise _needs_all(name)

    async def charts(
        self, kind: str, name: str, metrics: tuple[Metric, ...], span_s: int
    ) -> list[Chart]:
        """Return charts of a topic or a group of the user; of a group's lag, what is in the user's topics."""
        if kind == "topic":
            _require_topic(self._user, Role.VIEWER, name)
        elif kind == "group":
            _require_group(self._user, Role.VIEWER, name)
        elif not self._user.may_on_all(Role.VIEWER):
            raise forbidden(
                say(
                    "The history of the {kind} needs the role viewer on all topics and groups.",
                    kind=kind,
                )
            )
        if kind != "group" or self._user.may_on_all(Role.VIEWER):
            return await self._history.charts(kind, name, metrics, span_s)
        topics, begin_s = await self._history.topics_of_group(name)
        seen = {topic for topic in topics if self._sees(topic)}
        if seen == topics:
            return await self._history.charts(kind, name, metrics, span_s, begin_s)
        return await self._history.lag_in_topics(name, seen, span_s, begin_s)

    async def limits(self, kind: str, name: str) -> Sentence:
        """Return what the charts of a group lack, because the user does not see all of its topics."""
        if kind != "group" or self._user.may_on_all(Role.VIEWER):
            return NOTHING
        topics, begin_s = await self._history.topics_of_group(name)
        if not all(map(self._sees, topics)):
            return say(
                "The group reads topics that your role does not cover: the lag is that in your topics, and the lag "
                "in time and the records read are not shown."
            )
        if begin_s:
            return say(
                "What is older is not shown: it is not known which topics the group had then."
            )
        return NOTHING

    def _sees(self, topic: str) -> bool:
        return self._user.may(Role.VIEWER, topic=topic)

    @property
    def latest(self) -> Snapshot | None:
        """The newest look, with the user's groups alone."""
        found = self._history.latest
        if found is None:
            return None
        seen = {
            name: of_topics(one, self._sees)
            for name, one in found.groups.items()
            if self._user.may(Role.VIEWER, group=name)
        }
        return Snapshot(found.at_s, groups=seen)


class ScopedSampler:
    """The rates of the user's topics."""

    def __init__(self, sampler: Sampler, user: User) -> None:
        """Wrap the sampler."""
        self._sampler = sampler
        self._user = user

    @property
    def history(self) -> RateHistory:
        """The rates of the user's topics; those of all together are of these alone."""
        return self._sampler.history.restricted(
            lambda topic: self._user.may(Role.VIEWER, topic=topic)
        )
