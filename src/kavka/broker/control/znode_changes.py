"""Registry changes as controller events; None for the controller's own writes."""

from __future__ import annotations

from kavka.broker.control.watched_registry import Changed, Source, WatchedRegistry
from kavka.core.controller.events import (
    BrokersChanged,
    DeletionsMarked,
    Event,
    LogDirFailed,
    PartitionsRead,
    PreferredElectionNodeRead,
    ReassignmentNodeRead,
    TopicsChanged,
)
from kavka.core.controller.state import ClusterState


async def read_change(watched: WatchedRegistry, state: ClusterState, what: Changed) -> Event | None:
    """Read a source that changed, and watch it again."""
    match what.source:
        case Source.BROKERS:
            return BrokersChanged(await watched.brokers())
        case Source.TOPICS:
            return await _topics(watched, state)
        case Source.TOPIC:
            return await _topic(watched, state, what.name)
        case Source.DELETIONS:
            marks = await watched.deletions()
            fresh = [name for name in marks if name not in state.deletions]
            return DeletionsMarked(fresh) if fresh else None
        case Source.REASSIGNMENTS:
            moves = await watched.reassignments()
            if dict(moves or {}) == state.reassignment_node:
                return None
            return ReassignmentNodeRead(moves)
        case Source.PREFERRED_ELECTION:
            elections = await watched.preferred_elections()
            return None if elections is None else PreferredElectionNodeRead(elections)
        case Source.LOG_DIRS:
            brokers = await watched.failed_log_dirs()
            return LogDirFailed(brokers) if brokers else None
        case Source.ISR_CHANGES:
            changed = await watched.changed_isrs()
            states = await watched.states(changed)
            for topic_partition in changed:
                if topic_partition.topic in watched.unreadable:
                    del states[topic_partition]
            return PartitionsRead(states) if states else None


async def _topics(watched: WatchedRegistry, state: ClusterState) -> Event | None:
    names = await watched.topic_names()
    # Each creation leads here: what is the same for all topics must not be Python work for each of them.
    unwatched = [name for name in names if name not in watched.watched_topics]
    fresh = [name for name in names if name not in state.topics]
    if watched.unreadable:
        unreadable = watched.unreadable & watched.watched_topics
        fresh = [name for name in fresh if name not in unreadable]
    for name in unwatched:
        if name in state.topics:
            version = await watched.topic_version(name)
            if version is not None and version != state.topics[name].version:
                fresh.append(name)
    removed: list[str] = []
    if len(state.topics) + len(fresh) != len(names):
        removed = sorted(set(state.topics) - set(names))
    if not fresh and not removed:
        return None
    return TopicsChanged(await watched.topics(fresh), removed)


async def _topic(watched: WatchedRegistry, state: ClusterState, name: str) -> Event | None:
    """Read one topic's assignment, and its states when one of them could not be read."""
    known = state.topics.get(name)
    if known is not None and name not in watched.unreadable:
        version = await watched.topic_version(name)
        if version is None or version == known.version:
            return None
    found = await watched.topics([name])  # one that could not be read before may be mended
    return TopicsChanged(found) if found else None
