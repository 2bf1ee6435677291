"""What a watch told of, read and made an event; nothing when the controller wrote it itself."""

from __future__ import annotations

from kavka.broker.control.watching import Changed, Source, Watching
from kavka.core.controller.events import (
    BrokersChanged,
    DeletionsMarked,
    Event,
    LogDirFailed,
    PartitionsRead,
    PreferredElectionRead,
    ReassignmentNodeRead,
    TopicsChanged,
)
from kavka.core.controller.state import ClusterState


async def read_change(watching: Watching, state: ClusterState, what: Changed) -> Event | None:
    """Read a source that changed, and watch it again."""
    match what.source:
        case Source.BROKERS:
            return BrokersChanged(await watching.brokers())
        case Source.TOPICS:
            return await _topics(watching, state)
        case Source.TOPIC:
            return await _topic(watching, state, what.name)
        case Source.DELETIONS:
            marks = await watching.deletions()
            fresh = [name for name in marks if name not in state.deletions]
            return DeletionsMarked(fresh) if fresh else None
        case Source.REASSIGNMENTS:
            moves = await watching.reassignments()
            if dict(moves or {}) == state.reassignment_node:
                return None
            return ReassignmentNodeRead(moves)
        case Source.PREFERRED_ELECTION:
            elections = await watching.preferred_elections()
            return None if elections is None else PreferredElectionRead(elections)
        case Source.LOG_DIRS:
            brokers = await watching.failed_log_dirs()
            return LogDirFailed(brokers) if brokers else None
        case Source.ISR_CHANGES:
            changed = await watching.changed_isrs()
            states = await watching.states(changed)
            for where in changed:
                if where.topic in watching.unreadable:
                    del states[where]
            return PartitionsRead(states) if states else None


async def _topics(watching: Watching, state: ClusterState) -> Event | None:
    names = await watching.topic_names()
    # Each creation leads here: what is the same for all topics must not be Python work for each of them.
    unwatched = [name for name in names if name not in watching.watched_topics]
    fresh = [name for name in names if name not in state.topics]
    if watching.unreadable:
        unreadable = watching.unreadable & watching.watched_topics
        fresh = [name for name in fresh if name not in unreadable]
    for name in unwatched:
        if name in state.topics:
            version = await watching.topic_version(name)
            if version is not None and version != state.topics[name].version:
                fresh.append(name)
    removed: list[str] = []
    if len(state.topics) + len(fresh) != len(names):
        removed = sorted(set(state.topics) - set(names))
    if not fresh and not removed:
        return None
    return TopicsChanged(await watching.topics(fresh), removed)


async def _topic(watching: Watching, state: ClusterState, name: str) -> Event | None:
    """Look at one topic's assignment, and at its states when one of them could not be read."""
    known = state.topics.get(name)
    if known is not None and name not in watching.unreadable:
        version = await watching.topic_version(name)
        if version is None or version == known.version:
            return None
    found = await watching.topics([name])  # one that could not be read before may be mended
    return TopicsChanged(found) if found else None
