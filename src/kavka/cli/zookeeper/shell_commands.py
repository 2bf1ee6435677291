"""The commands of `kavka zookeeper-shell`, with the output of ZooKeeper 3.8's shell."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from kavka.cli.zookeeper.shell_words import (
    BadCommand,
    Syntax,
    Words,
    parse_access_list,
    parse_words,
    split_line,
)
from kavka.core.znode_access import OPEN
from kavka.core.znodes import Delete, Event, EventType, Stat, ZnodeError, is_valid_path
from kavka.registry.interface import RegistryRefused, Watch
from kavka.registry.zookeeper import ZooKeeperRegistry
from kavka.registry.zookeeper_access import ZooKeeperLoginRefused
from kavka.registry.zookeeper_connection import ServerRefused

_SYNTAX = {
    "addauth": Syntax("addauth scheme auth", 1, 2),
    "create": Syntax("create [-s] [-e] path [data] [acl]", 1, 3, "se"),
    "delete": Syntax("delete [-v version] path", 1, 1, "", "v"),
    "deleteall": Syntax("deleteall path", 1, 1),
    "get": Syntax("get [-s] [-w] path", 1, 2, "sw"),
    "getAcl": Syntax("getAcl [-s] path", 1, 1, "s"),
    "getAllChildrenNumber": Syntax("getAllChildrenNumber path", 1, 1),
    "getEphemerals": Syntax("getEphemerals path", 0, 1),
    "help": Syntax("help", 0, 0),
    "history": Syntax("history ", 0, 0),
    "ls": Syntax("ls [-s] [-w] [-R] path", 1, 2, "swR"),
    "printwatches": Syntax("printwatches on|off", 0, 1),
    "quit": Syntax("quit ", 0, 0),
    "removewatches": Syntax("removewatches path [-c|-d|-a] [-l]", 1, 1, "cdal"),
    "set": Syntax("set [-s] [-v version] path data", 2, 2, "s", "v"),
    "setAcl": Syntax("setAcl [-s] [-v version] [-R] path acl", 2, 2, "sR", "v"),
    "stat": Syntax("stat [-w] path", 1, 2, "w"),
    "sync": Syntax("sync path", 1, 1),
    "version": Syntax("version ", 0, 0),
    "whoami": Syntax("whoami ", 0, 0),
}
_SENTENCES: dict[int, str] = {
    ZnodeError.NO_NODE: "Node does not exist: {}",
    ZnodeError.NODE_EXISTS: "Node already exists: {}",
    ZnodeError.NOT_EMPTY: "Node not empty: {}",
    ZnodeError.NO_CHILDREN_FOR_EPHEMERALS: "Ephemerals cannot have children: {}",
    ZnodeError.BAD_VERSION: "version No is not valid : {}",
    ZnodeError.BAD_ARGUMENTS: "Arguments are not valid : {}",
    ZnodeError.SESSION_EXPIRED: "KeeperErrorCode = Session expired for {}",
    -6: "KeeperErrorCode = Unimplemented for {}",
    ZnodeError.INVALID_ACL: "Acl is not valid : {}",
    ZnodeError.NO_AUTH: "Insufficient permission : {}",
    -121: "KeeperErrorCode = No such watcher for {}",
}
"""By the number of the error; the numbers have no name in `ZnodeError`."""
_EVENTS = {
    EventType.CREATED: "NodeCreated",
    EventType.DELETED: "NodeDeleted",
    EventType.DATA_CHANGED: "NodeDataChanged",
    EventType.CHILDREN_CHANGED: "NodeChildrenChanged",
}
_PERMISSIONS = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))
_PATHLESS = ("addauth", "printwatches")
"""Commands without a path as first word."""
_DELETES_IN_A_MULTI = 500

USAGE = "\n\t".join(
    [
        "ZooKeeper -server host:port [-zk-tls-config-file <file>] cmd args",
        *(syntax.usage for name, syntax in _SYNTAX.items() if name != "help"),
    ]
)


class Shell:
    """The commands of a user, over one session."""

    def __init__(self, registry: ZooKeeperRegistry) -> None:
        """Take a session that the caller ends."""
        self._registry = registry
        self._history: list[str] = []
        self._prints_watches = True
        self.has_quit = False
        self._commands: dict[str, Callable[[Words], Awaitable[None]]] = {
            "addauth": self._add_identity,
            "create": self._create,
            "delete": self._delete,
            "deleteall": self._delete_all,
            "get": self._get,
            "getAcl": self._get_acl,
            "getAllChildrenNumber": self._count,
            "getEphemerals": self._get_ephemerals,
            "help": self._help,
            "history": self._show_history,
            "ls": self._list,
            "printwatches": self._print_watches,
            "quit": self._quit,
            "removewatches": self._remove_watches,
            "set": self._set,
            "setAcl": self._set_acl,
            "stat": self._stat,
            "sync": self._sync,
            "version": self._version,
            "whoami": self._who_am_i,
        }

    @property
    def count(self) -> int:
        """Return the number of lines typed."""
        return len(self._history)

    async def run_line(self, line: str) -> int:
        """Run the command of a line; return 1 when that failed. An empty line does nothing."""
        words = split_line(line)
        self._history.append(line)
        return await self.run(words) if words else 0

    async def run(self, words: Sequence[str]) -> int:
        """Run a command; return 1 when that failed, after a sentence about it."""
        name, *typed = words
        if name not in _SYNTAX:
            print(f"{USAGE}\nCommand not found: Command not found {name}", file=sys.stderr)
            return 1
        path = ""
        try:
            parsed = parse_words(_SYNTAX[name], typed)
            path = parsed.rest[0] if parsed.rest else ""
            if parsed.rest and name not in _PATHLESS:
                _check_path(path)
            await self._commands[name](parsed)
        except BadCommand as error:
            print(error, file=sys.stderr)
            return 1
        except RegistryRefused as refused:
            sentence = _SENTENCES.get(
                refused.error, f"KeeperErrorCode = {refused.error.name} for {{}}"
            )
            print(sentence.format(path), file=sys.stderr)
            return 1
        except ConnectionError as error:
            print(sentence_about(error).format(path), file=sys.stderr)
            return 1
        return 0

    # What the commands do

    async def _list(self, words: Words) -> None:
        [path, *_] = words.rest
        watch = self._watch(words, "ls")
        if words.has("R"):
            await self._list_below(path, watch)
            return
        children = await self._registry.children(path, watch)
        print(f"[{', '.join(children)}]")
        if words.has("s"):
            print_stat(await self._existing(path))

    async def _list_below(self, path: str, watch: Watch | None) -> None:
        """Print a node and all below it: the children of each in order, then what is below the first of them."""
        await self._registry.get(path, watch)
        print(path)
        waiting = [path]
        while waiting:
            node = waiting.pop()
            prefix = "" if node == "/" else node
            try:
                names = await self._registry.children(node, watch)
            except RegistryRefused as refused:
                if refused.error is not ZnodeError.NO_NODE:
                    raise
                continue  # it went meanwhile
            children = [f"{prefix}/{name}" for name in names]
            for child in children:
                print(child)
            waiting.extend(reversed(children))

    async def _get(self, words: Words) -> None:
        data, stat = await self._registry.get_as_stored(words.rest[0], self._watch(words, "get"))
        print("null" if data is None else data.decode(errors="replace"))
        if words.has("s"):
            print_stat(stat)

    async def _stat(self, words: Words) -> None:
        print_stat(await self._existing(words.rest[0], self._watch(words, "stat")))

    async def _existing(self, path: str, watch: Watch | None = None) -> Stat:
        stat = await self._registry.stat(path, watch)
        if stat is None:
            raise RegistryRefused(ZnodeError.NO_NODE, path)
        return stat

    async def _create(self, words: Words) -> None:
        path, *more = words.rest
        access = parse_access_list(more[1]) if more[1:] else OPEN
        made = await self._registry.create(
            path,
            _bytes_of(more[0]) if more else None,
            ephemeral=words.has("e"),
            sequence=words.has("s"),
            access=access,
        )
        print(f"Created {made}", file=sys.stderr)

    async def _set(self, words: Words) -> None:
        path, data = words.rest
        stat = await self._registry.set(path, _bytes_of(data), words.version())
        if words.has("s"):
            print_stat(stat)

    async def _delete(self, words: Words) -> None:
        await self._registry.delete(words.rest[0], words.version())

    async def _delete_all(self, words: Words) -> None:
        nodes = await self._below(words.rest[0])
        nodes.reverse()
        for first in range(0, len(nodes), _DELETES_IN_A_MULTI):
            chunk = nodes[first : first + _DELETES_IN_A_MULTI]
            await self._registry.multi([Delete(node) for node in chunk])

    async def _count(self, words: Words) -> None:
        print(len(await self._below(words.rest[0])) - 1)

    async def _below(self, path: str) -> list[str]:
        """Return a node and all below it, level by level."""
        found = [path]
        for node in found:
            prefix = "" if node == "/" else node
            found += [f"{prefix}/{child}" for child in await self._registry.children(node)]
        return found

    async def _help(self, words: Words) -> None:
        print(USAGE, file=sys.stderr)

    async def _version(self, words: Words) -> None:
        from kavka import __version__

        print(f"ZooKeeper CLI version: kavka {__version__}")

    async def _show_history(self, words: Words) -> None:
        first = max(len(self._history) - 11, 0)
        for number in range(first, len(self._history)):
            print(f"{number} - {self._history[number]}")

    async def _print_watches(self, words: Words) -> None:
        if words.rest:
            self._prints_watches = words.rest[0] == "on"
        else:
            print(f"printwatches is {'on' if self._prints_watches else 'off'}")

    async def _quit(self, words: Words) -> None:
        self.has_quit = True

    # Access lists

    async def _get_acl(self, words: Words) -> None:
        entries, stat = await self._registry.acl(words.rest[0])
        for entry in entries:
            allowed = "".join(letter for bit, letter in _PERMISSIONS if entry.permissions & bit)
            print(f"'{entry.scheme},'{entry.id}\n: {allowed}")
        if words.has("s"):
            print_stat(stat)

    async def _set_acl(self, words: Words) -> None:
        path, text = words.rest
        access = parse_access_list(text)
        if not words.has("R"):
            stat = await self._registry.set_access(path, access, words.version())
            if words.has("s"):
                print_stat(stat)
            return
        for node in await self._below(path):
            try:
                await self._registry.set_access(node, access, words.version())
            except RegistryRefused as refused:
                if refused.error is not ZnodeError.NO_NODE:
                    raise  # it went meanwhile otherwise

    async def _add_identity(self, words: Words) -> None:
        scheme, *proof = words.rest
        try:
            await self._registry.add_identity(scheme, _bytes_of(proof[0] if proof else ""))
        except ZooKeeperLoginRefused as error:
            raise BadCommand(str(error)) from error

    async def _who_am_i(self, words: Words) -> None:
        print("Auth scheme: User")
        for identity in await self._registry.identities():
            print(f"{identity.auth_scheme}: {identity.user}")

    # The session

    async def _sync(self, words: Words) -> None:
        await self._registry.sync(words.rest[0])
        print("Sync is OK")

    async def _get_ephemerals(self, words: Words) -> None:
        found = await self._registry.ephemerals(words.rest[0] if words.rest else "/")
        print(f"[{', '.join(found)}]")

    # Watches

    async def _remove_watches(self, words: Words) -> None:
        [path] = words.rest
        node, children = self._registry.watches(path)
        if words.has("c"):
            node = False
        elif words.has("d"):
            children = False
        if not node and not children:
            raise BadCommand(_SENTENCES[-121].format(path))
        await self._registry.unwatch(
            path, node=node, children=children, even_offline=words.has("l")
        )
        for is_removed, kind in ((children, "Child"), (node, "Data")):
            if is_removed and self._prints_watches:
                print_event("SyncConnected", f"{kind}WatchRemoved", path)

    def _watch(self, words: Words, name: str) -> Watch | None:
        if len(words.rest) > 1:
            print(
                f"'{name} path [watch]' has been deprecated. Please use '{_SYNTAX[name].usage.replace(' [-R]', '')}' "
                "instead.",
                file=sys.stderr,
            )
        return self._print_event if words.has("w") or len(words.rest) > 1 else None

    def _print_event(self, event: Event) -> None:
        if self._prints_watches:
            print_event("SyncConnected", _EVENTS[event.type], event.path)


def sentence_about(error: ConnectionError) -> str:
    """Return what is said of a call that was refused with an error that is none of `ZnodeError`, or not answered."""
    refused = error.__cause__
    if not isinstance(refused, ServerRefused):
        return "KeeperErrorCode = ConnectionLoss for {}"
    return _SENTENCES.get(refused.code, f"KeeperErrorCode = {refused.code} for {{}}")


def print_event(state: str, kind: str = "None", path: str = "null") -> None:
    """Print a watch event, or a change of the session's state."""
    print(f"\nWATCHER::\n\nWatchedEvent state:{state} type:{kind} path:{path}", flush=True)


def print_stat(stat: Stat) -> None:
    """Print the facts of a node."""
    print(f"cZxid = {_hex(stat.czxid)}")
    print(f"ctime = {_java_date(stat.ctime_ms)}")
    print(f"mZxid = {_hex(stat.mzxid)}")
    print(f"mtime = {_java_date(stat.mtime_ms)}")
    print(f"pZxid = {_hex(stat.pzxid)}")
    print(f"cversion = {stat.cversion}")
    print(f"dataVersion = {stat.version}")
    print(f"aclVersion = {stat.aversion}")
    print(f"ephemeralOwner = {_hex(stat.ephemeral_owner)}")
    print(f"dataLength = {stat.data_length}")
    print(f"numChildren = {stat.num_children}")


def _hex(number: int) -> str:
    return f"0x{number & 0xFFFFFFFFFFFFFFFF:x}"


def _java_date(ms: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(ms / 1000))


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise BadCommand("Path must start with / character")
    if path != "/" and path.endswith("/"):
        raise BadCommand("Path must not end with / character")
    shown = _bytes_of(path).decode(errors="replace")
    if shown != path or not is_valid_path(path):
        raise BadCommand(f'Invalid path string "{shown}"')


def _bytes_of(word: str) -> bytes:
    """Return a word's bytes; those of the command line may be no UTF-8, and stay what they are."""
    return word.encode(errors="surrogateescape")
