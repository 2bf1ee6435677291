"""The commands of `kavka zookeeper-shell`, with the output of ZooKeeper 3.8's shell."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from kavka.cli.shell_words import BadCommand, Syntax, Words, parse_words, split_line
from kavka.core.znodes import Delete, Event, EventType, Stat, ZnodeError, is_valid_path
from kavka.registry.interface import RegistryRefused, Watch
from kavka.registry.zookeeper import ZooKeeperRegistry

_SYNTAX = {
    "create": Syntax("create [-s] [-e] path [data]", 1, 3, "se"),
    "delete": Syntax("delete [-v version] path", 1, 1, "", "v"),
    "deleteall": Syntax("deleteall path", 1, 1),
    "get": Syntax("get [-s] [-w] path", 1, 2, "sw"),
    "getAllChildrenNumber": Syntax("getAllChildrenNumber path", 1, 1),
    "help": Syntax("help", 0, 0),
    "history": Syntax("history ", 0, 0),
    "ls": Syntax("ls [-s] [-w] [-R] path", 1, 2, "swR"),
    "printwatches": Syntax("printwatches on|off", 0, 1),
    "quit": Syntax("quit ", 0, 0),
    "set": Syntax("set [-s] [-v version] path data", 2, 2, "s", "v"),
    "stat": Syntax("stat [-w] path", 1, 2, "w"),
    "version": Syntax("version ", 0, 0),
}
_SENTENCES = {
    ZnodeError.NO_NODE: "Node does not exist: {}",
    ZnodeError.NODE_EXISTS: "Node already exists: {}",
    ZnodeError.NOT_EMPTY: "Node not empty: {}",
    ZnodeError.NO_CHILDREN_FOR_EPHEMERALS: "Ephemerals cannot have children: {}",
    ZnodeError.BAD_VERSION: "version No is not valid : {}",
    ZnodeError.BAD_ARGUMENTS: "KeeperErrorCode = BadArguments for {}",
    ZnodeError.SESSION_EXPIRED: "KeeperErrorCode = Session expired for {}",
}
_EVENTS = {
    EventType.CREATED: "NodeCreated",
    EventType.DELETED: "NodeDeleted",
    EventType.DATA_CHANGED: "NodeDataChanged",
    EventType.CHILDREN_CHANGED: "NodeChildrenChanged",
}
_OPEN_ACL = "world:anyone:cdrwa"
_DELETES_IN_A_MULTI = 500

USAGE = "\n\t".join(
    [
        "ZooKeeper -server host:port [-zk-tls-config-file <file>] cmd args",
        *(syntax.usage for name, syntax in _SYNTAX.items() if name != "help"),
    ]
)


class Shell:
    """One user's commands, over one session."""

    def __init__(self, registry: ZooKeeperRegistry) -> None:
        """Take a session that the caller ends."""
        self._registry = registry
        self._history: list[str] = []
        self._prints_watches = True
        self.has_quit = False
        self._commands: dict[str, Callable[[Words], Awaitable[None]]] = {
            "create": self._create,
            "delete": self._delete,
            "deleteall": self._delete_all,
            "get": self._get,
            "getAllChildrenNumber": self._count,
            "help": self._help,
            "history": self._show_history,
            "ls": self._list,
            "printwatches": self._print_watches,
            "quit": self._quit,
            "set": self._set,
            "stat": self._stat,
            "version": self._version,
        }

    @property
    def count(self) -> int:
        """How many lines were typed."""
        return len(self._history)

    async def run_line(self, line: str) -> int:
        """Do what a line says; 1 when that failed. An empty line does nothing."""
        words = split_line(line)
        self._history.append(line)
        return await self.run(words) if words else 0

    async def run(self, words: Sequence[str]) -> int:
        """Do a command; 1 when that failed, after a sentence about it."""
        name, *typed = words
        if name not in _SYNTAX:
            print(f"{USAGE}\nCommand not found: Command not found {name}", file=sys.stderr)
            return 1
        path = ""
        try:
            parsed = parse_words(_SYNTAX[name], typed)
            path = parsed.rest[0] if parsed.rest else ""
            if parsed.rest and name != "printwatches":
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
        except ConnectionError:
            print(f"KeeperErrorCode = ConnectionLoss for {path}", file=sys.stderr)
            return 1
        return 0

    # What the commands do

    async def _list(self, words: Words) -> None:
        [path, *_] = words.rest
        if words.has("R"):
            for node in await self._below(path):
                print(node)
            return
        children = await self._registry.children(path, self._watch(words, "ls"))
        print(f"[{', '.join(children)}]")
        if words.has("s"):
            print_stat(await self._existing(path))

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
        if more[1:] not in ([], [_OPEN_ACL]):
            raise BadCommand(f"{more[1]}: this release knows no ACL but {_OPEN_ACL}")
        made = await self._registry.create(
            path,
            more[0].encode() if more else None,
            ephemeral=words.has("e"),
            sequence=words.has("s"),
        )
        print(f"Created {made}", file=sys.stderr)

    async def _set(self, words: Words) -> None:
        path, data = words.rest
        stat = await self._registry.set(path, data.encode(), words.version())
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

    # Watches

    def _watch(self, words: Words, name: str) -> Watch | None:
        if len(words.rest) > 1:
            print(
                f"'{name} path [watch]' has been deprecated. Please use '{_SYNTAX[name].usage.replace(' [-R]', '')}' "
                "instead.",
                file=sys.stderr,
            )
        return self._tell if words.has("w") or len(words.rest) > 1 else None

    def _tell(self, event: Event) -> None:
        if self._prints_watches:
            print_event("SyncConnected", _EVENTS[event.type], event.path)


def print_event(state: str, kind: str = "None", path: str = "null") -> None:
    """Print what a watch is told, or how the session stands."""
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
    print("aclVersion = 0")
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
    if not is_valid_path(path):
        raise BadCommand(f'Invalid path string "{path}"')
