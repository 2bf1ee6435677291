"""A tree of znodes as a pure machine: ZooKeeper's data model without its network.

    operations --prepare--> Txn or Refusal        decide: nothing changes
    Txn        --apply----> the watches that fire  remember: called once per journaled transaction, in order

A transaction holds resolved changes (sequence numbers given, versions checked): replaying a journal needs no decisions.
One tree serves the embedded registry, the registry that is served on a port, and the simulator.
Source: ZooKeeper programmer's guide (data model, versions, ephemerals, sequences, watches, multi).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kavka.core import znode_access
from kavka.core.znode_access import OPEN, AccessList, Identity
from kavka.core.znode_values import (
    ANY_VERSION,
    AccessChanged,
    Change,
    Changed,
    Check,
    Create,
    Created,
    Delete,
    Deleted,
    Event,
    EventType,
    Operation,
    Refusal,
    SessionBegun,
    SessionEnded,
    SetAccess,
    SetData,
    Stat,
    StoredNode,
    Txn,
    ZnodeError,
    is_valid_path,
    parent_of,
    size_of,
)

__all__ = [
    "ANY_VERSION",
    "AccessChanged",
    "Change",
    "Changed",
    "Check",
    "Create",
    "Created",
    "Delete",
    "Deleted",
    "Event",
    "EventType",
    "Operation",
    "Refusal",
    "SessionBegun",
    "SessionEnded",
    "SetAccess",
    "SetData",
    "Stat",
    "StoredNode",
    "Txn",
    "ZnodeError",
    "ZnodeTree",
    "is_valid_path",
    "parent_of",
    "size_of",
]

_REMEMBERED_LISTS = 1000


class _Node:
    """A znode in the tree."""

    __slots__ = (
        "access",
        "aversion",
        "children",
        "ctime_ms",
        "cversion",
        "czxid",
        "data",
        "generation",
        "mtime_ms",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(
        self, data: bytes | None, owner: int, zxid: int, time_ms: int, generation: int
    ) -> None:
        self.generation = generation
        self.data = data
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = time_ms
        self.version = self.cversion = self.aversion = 0
        self.access = OPEN
        self.children: dict[str, None] = {}

    def copy(self, generation: int) -> _Node:
        """Return the same node for another generation."""
        node = _Node(self.data, self.owner, self.czxid, self.ctime_ms, generation)
        node.mzxid, node.mtime_ms, node.pzxid = self.mzxid, self.mtime_ms, self.pzxid
        node.version, node.cversion = self.version, self.cversion
        node.access, node.aversion = self.access, self.aversion
        node.children = dict(self.children)
        return node

    def stat(self) -> Stat:
        """Return the node's facts."""
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            self.cversion,
            self.owner,
            len(self.data or b""),
            len(self.children),
            self.pzxid,
            self.aversion,
        )


class _NodeView:
    """A node as it will be after the operations prepared so far."""

    __slots__ = ("access", "aversion", "children", "cversion", "owner", "version")

    def __init__(self, owner: int, access: AccessList) -> None:
        self.owner = owner
        self.access = access
        self.version = self.cversion = self.aversion = self.children = 0

    @classmethod
    def of(cls, node: _Node) -> _NodeView:
        """Return a node as it is."""
        view = cls(node.owner, node.access)
        view.version, view.cversion, view.aversion = node.version, node.cversion, node.aversion
        view.children = len(node.children)
        return view

    @property
    def children_created(self) -> int:
        """Return the number of children ever created: ZooKeeper's counter for sequential nodes.

        `cversion` counts creations and deletions, `children` their difference.
        """
        return (self.cversion + self.children) // 2


class _Preparation:
    """The decision about operations that happen together, by the rules and in the order of ZooKeeper."""

    def __init__(
        self, nodes: dict[str, _Node], session: int, identities: Collection[Identity] | None
    ) -> None:
        self._nodes = nodes
        self._session = session
        self._identities = identities
        self._view: dict[str, _NodeView | None] = {}

    def resolve(self, operation: Operation) -> Change | ZnodeError | None:
        """Return the change that an operation makes, None for none, or why it is refused."""
        if isinstance(operation, Create):
            return self._create(operation)
        if not is_valid_path(operation.path):
            return ZnodeError.BAD_ARGUMENTS
        if isinstance(operation, Delete):
            return self._delete(operation)
        if isinstance(operation, SetAccess):
            return self._set_access(operation)
        needed = znode_access.WRITE if isinstance(operation, SetData) else znode_access.READ
        seen = self._permitted(operation.path, needed)
        if isinstance(seen, ZnodeError):
            return seen
        if operation.version not in (ANY_VERSION, seen.version):
            return ZnodeError.BAD_VERSION
        if isinstance(operation, Check):
            return None
        seen.version += 1
        return Changed(operation.path, operation.data, seen.version)

    def _delete(self, operation: Delete) -> Change | ZnodeError:
        path = operation.path
        if path == "/":
            return ZnodeError.BAD_ARGUMENTS
        parent = self._permitted(parent_of(path), znode_access.DELETE)
        if isinstance(parent, ZnodeError):
            return parent
        seen = self._node(path)
        if seen is None:
            return ZnodeError.NO_NODE
        if operation.version not in (ANY_VERSION, seen.version):
            return ZnodeError.BAD_VERSION
        if seen.children:
            return ZnodeError.NOT_EMPTY
        self._view[path] = None
        parent.children -= 1
        parent.cversion += 1
        return Deleted(path)

    def _set_access(self, operation: SetAccess) -> Change | ZnodeError:
        access = self._resolved(operation.access)
        if access is None:
            return ZnodeError.INVALID_ACL
        seen = self._permitted(operation.path, znode_access.ADMIN)
        if isinstance(seen, ZnodeError):
            return seen
        if operation.version not in (ANY_VERSION, seen.aversion):
            return ZnodeError.BAD_VERSION
        seen.aversion += 1
        seen.access = access
        return AccessChanged(operation.path, access, seen.aversion)

    def _create(self, operation: Create) -> Change | ZnodeError:
        path = operation.path
        # The number that a sequence appends makes `/a/` a name, too.
        if not is_valid_path(path + "0" if operation.sequence else path):
            return ZnodeError.BAD_ARGUMENTS
        access = self._resolved(operation.access)
        if access is None:
            return ZnodeError.INVALID_ACL
        parent = self._permitted(parent_of(path), znode_access.CREATE)
        if isinstance(parent, ZnodeError):
            return parent
        if parent.owner:
            return ZnodeError.NO_CHILDREN_FOR_EPHEMERALS
        if operation.sequence:
            path = f"{path}{parent.children_created:010d}"
        if self._node(path) is not None:
            return ZnodeError.NODE_EXISTS
        owner = self._session if operation.ephemeral else 0
        self._view[path] = _NodeView(owner, access)
        parent.children += 1
        parent.cversion += 1
        return Created(path, operation.data, owner, access)

    def _resolved(self, asked: AccessList) -> AccessList | None:
        if self._identities is None or asked is OPEN:
            return asked
        return znode_access.resolve(asked, self._identities)

    def _permitted(self, path: str, permission: int) -> _NodeView | ZnodeError:
        """Return a node that the connection may use so, or why not."""
        seen = self._node(path)
        if seen is None:
            return ZnodeError.NO_NODE
        if not znode_access.allows(seen.access, permission, self._identities):
            return ZnodeError.NO_AUTH
        return seen

    def _node(self, path: str) -> _NodeView | None:
        if path in self._view:
            return self._view[path]
        node = self._nodes.get(path)
        if node is None:
            return None
        seen = self._view[path] = _NodeView.of(node)
        return seen


class ZnodeTree:
    """The tree. Invariant: every node but the root has its parent in the tree, and no ephemeral node has children."""

    def __init__(self) -> None:
        """Begin with the root alone."""
        self._generation = 0
        # Invariants: parents stand before their children. A node of an older generation belongs to a dump, too, and is
        # replaced, never changed.
        self._nodes: dict[str, _Node] = {"/": _Node(None, 0, 0, 0, 0)}
        self._ephemerals: dict[int, dict[str, None]] = {}
        self.clients: dict[int, SessionBegun] = {}
        """The sessions that outlive the server's process."""
        self.zxid = 0
        self._lists: dict[AccessList, AccessList] = {}

    # -- reading

    def stat(self, path: str) -> Stat | None:
        """Return a node's facts, or None when it does not exist."""
        node = self._nodes.get(path)
        return None if node is None else node.stat()

    def data(self, path: str) -> bytes | None:
        """Return a node's data; None when it has none, or does not exist."""
        node = self._nodes.get(path)
        return None if node is None else node.data

    def access(self, path: str) -> AccessList:
        """Return a node's access list; one that does not exist is open."""
        node = self._nodes.get(path)
        return OPEN if node is None else node.access

    def children(self, path: str) -> list[str] | None:
        """Return the names of a node's children, sorted, or None when it does not exist."""
        node = self._nodes.get(path)
        return None if node is None else sorted(node.children)

    def ephemerals(self, session: int) -> list[str]:
        """Return the paths that die with a session."""
        return list(self._ephemerals.get(session, ()))

    def sessions(self) -> list[int]:
        """Return the sessions that own ephemeral nodes."""
        return [session for session, paths in self._ephemerals.items() if paths]

    def __contains__(self, path: str) -> bool:
        """Return whether there is such a node."""
        return path in self._nodes

    def descendants(self, path: str) -> int:
        """Return how many nodes are below a node."""
        prefix = path if path == "/" else f"{path}/"
        return sum(other.startswith(prefix) for other in self._nodes if other != path)

    def __len__(self) -> int:
        """Return how many nodes there are, the root included."""
        return len(self._nodes)

    # -- deciding

    def prepare(
        self,
        operations: Sequence[Operation],
        session: int,
        now_ms: int,
        identities: Collection[Identity] | None = None,
    ) -> Txn | Refusal:
        """Resolve operations that happen together or not at all; `session` owns the ephemerals among them.

        `identities` are those of the connection that asks; None is this process, which may do everything.
        """
        preparation = _Preparation(self._nodes, session, identities)
        changes: list[Change] = []
        for index, operation in enumerate(operations):
            outcome = preparation.resolve(operation)
            if isinstance(outcome, ZnodeError):
                return Refusal(index, outcome, operation.path)
            if outcome is not None:
                changes.append(outcome)
        return Txn(self.zxid + 1, now_ms, tuple(changes))

    def prepare_session(self, begun: SessionBegun, now_ms: int) -> Txn:
        """Return the transaction that begins a client's session."""
        assert begun.session not in self.clients, begun.session
        return Txn(self.zxid + 1, now_ms, (begun,))

    def prepare_session_end(self, session: int, now_ms: int) -> Txn:
        """Return the transaction that removes a session and its ephemeral nodes."""
        changes: list[Change] = [Deleted(path) for path in self.ephemerals(session)]
        if session in self.clients:
            changes.append(SessionEnded(session))
        return Txn(self.zxid + 1, now_ms, tuple(changes))

    # -- changes

    def apply(self, txn: Txn, stats: list[Stat | None] | None = None) -> list[Event]:
        """Make the changes of a prepared or journaled transaction; return what watches may want to know, in order.

        `stats` is given the facts of each changed node as they are right after its change.
        """
        assert txn.zxid == self.zxid + 1, f"transaction {txn.zxid} after {self.zxid}"
        self.zxid = txn.zxid
        events: list[Event] = []
        for change in txn.changes:
            match change:
                case Created():
                    self._create(change, txn, events)
                case Changed():
                    node = self._copy_on_write(change.path)
                    node.data, node.version = change.data, change.version
                    node.mzxid, node.mtime_ms = txn.zxid, txn.time_ms
                    events.append(Event(EventType.DATA_CHANGED, change.path))
                case AccessChanged():
                    node = self._copy_on_write(change.path)
                    node.access, node.aversion = self._shared(change.access), change.aversion
                case Deleted():
                    self._delete(change.path, txn, events)
                case SessionBegun():
                    self.clients[change.session] = change
                    continue
                case SessionEnded():
                    del self.clients[change.session]
                    continue
            if stats is not None:
                stats.append(self.stat(change.path))
        return events

    def _create(self, change: Created, txn: Txn, events: list[Event]) -> None:
        node = _Node(change.data, change.owner, txn.zxid, txn.time_ms, self._generation)
        node.access = self._shared(change.access)
        self._nodes[change.path] = node
        if change.owner:
            self._ephemerals.setdefault(change.owner, {})[change.path] = None
        self._touch_parent(change.path, txn.zxid, child_created=True)
        events.append(Event(EventType.CREATED, change.path))
        events.append(Event(EventType.CHILDREN_CHANGED, parent_of(change.path)))

    def _delete(self, path: str, txn: Txn, events: list[Event]) -> None:
        node = self._nodes.pop(path)
        assert not node.children, path
        if node.owner:
            owned = self._ephemerals[node.owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.owner]
        self._touch_parent(path, txn.zxid, child_created=False)
        events.append(Event(EventType.DELETED, path))
        events.append(Event(EventType.CHILDREN_CHANGED, parent_of(path)))

    def _touch_parent(self, path: str, zxid: int, *, child_created: bool) -> None:
        parent = self._copy_on_write(parent_of(path))
        parent.cversion += 1
        parent.pzxid = zxid
        name = path.rsplit("/", 1)[1]
        if child_created:
            parent.children[name] = None
        else:
            del parent.children[name]

    def _copy_on_write(self, path: str) -> _Node:
        """Return a node that may be changed."""
        node = self._nodes[path]
        if node.generation != self._generation:
            node = self._nodes[path] = node.copy(self._generation)
        return node

    def _shared(self, access: AccessList) -> AccessList:
        """Return one and the same list for all nodes with equal ones, as far as a few of them are remembered."""
        if access == OPEN:
            return OPEN
        if len(self._lists) >= _REMEMBERED_LISTS:
            self._lists.clear()
        known = self._lists.get(access)
        if known is None:
            known = self._lists[access] = znode_access.indexed(access)
        return known

    # -- snapshots

    def dump(self) -> Iterator[StoredNode]:
        """Return every node with its facts, parents before children, as they are at the time of this call.

        The tree may change while the iterator is read: the nodes are worked out one by one.
        """
        self._generation += 1
        nodes = dict(self._nodes)
        return (
            StoredNode(path, node.data, node.stat(), node.access) for path, node in nodes.items()
        )

    @classmethod
    def load(cls, nodes: Iterator[StoredNode], zxid: int) -> ZnodeTree:
        """Return the tree that `dump` described, as it was after transaction `zxid`."""
        tree = cls()
        for path, data, stat, access in nodes:
            node = _Node(data, stat.ephemeral_owner, stat.czxid, stat.ctime_ms, tree._generation)
            node.mzxid, node.mtime_ms, node.pzxid = stat.mzxid, stat.mtime_ms, stat.pzxid
            node.version, node.cversion = stat.version, stat.cversion
            node.access, node.aversion = tree._shared(access), stat.aversion
            tree._nodes[path] = node
            if stat.ephemeral_owner:
                tree._ephemerals.setdefault(stat.ephemeral_owner, {})[path] = None
            if path != "/":
                tree._nodes[parent_of(path)].children[path.rsplit("/", 1)[1]] = None
        tree.zxid = zxid
        return tree
