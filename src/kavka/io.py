"""I/O as small protocols: clock, random, disk and network.

Everything that the product learns from the world or does to it passes one of these interfaces, so that the
simulator (`kavka.simulation`) can run the same brokers and clients over another set. The real implementations
are in `storage.disk.os_disk` (disk) and in `net` (network, clock and random); `broker.environment` puts them together.

Timers are asyncio's: `loop.call_later` and `asyncio.sleep` obey the loop, which has virtual time in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import ssl

Buffer = bytes | bytearray | memoryview
TakeMemory = Callable[[int], memoryview]
"""Returns writable memory of at least so many bytes, with any content."""
T = TypeVar("T")


class Clock(Protocol):
    """Two times, which must not be mixed: they have different origins."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 by the wall clock; it may jump."""
        ...

    def tick_ms(self) -> int:
        """Return milliseconds of a clock that never goes back; only differences mean anything."""
        ...

    def work_ns(self) -> int:
        """Return nanoseconds of processor time that this thread has used, to measure work."""
        ...


class Random(Protocol):
    """The source of ids and jitter."""

    def random(self) -> float:
        """Return a number from 0 up to and without 1."""
        ...

    def random_bytes(self, length: int) -> bytes:
        """Return `length` unpredictable bytes."""
        ...


class File(Protocol):
    """An open file. Each call is one system call on the caller's thread; all raise OSError.

    `sync` and a `read_at` of cold bytes block: they belong in `Disk.run`.
    """

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` from byte `position` on (into the page cache)."""
        ...

    def read_at(self, length: int, position: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def is_cached(self, length: int, position: int) -> bool:
        """Return, without blocking, whether a read of this range would be served from memory."""
        ...

    def read_cached(self, length: int, position: int) -> Buffer | None:
        """Return a short range without blocking; None when not all of it is in memory, or in the file."""
        ...

    def sync(self) -> None:
        """Return when all that was written is on the medium (fdatasync)."""
        ...

    def start_writeback(self) -> None:
        """Have the kernel begin to write what is dirty, for a `sync` that follows; a hint, which never fails."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes."""
        ...

    def size(self) -> int:
        """Return the file's length in bytes."""
        ...

    def fileno(self) -> int:
        """Return the descriptor for sendfile and mmap, or -1 where there is none (simulation)."""
        ...

    def close(self) -> None:
        """Release the descriptor; calling it twice is allowed."""
        ...


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Give the lock up."""
        ...


class Disk(Protocol):
    """The file system. Paths are text; calls raise OSError (FileNotFoundError and so on)."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open `path` for reading and writing; with `create`, make it when it is missing.

        Its mode is what the process's umask leaves of 0666; with `private`, 0600, also of a file that is there.
        """
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether `path` is there."""
        ...

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        ...

    def make_directories(self, path: str) -> None:
        """Make the directory and its parents; one that exists is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move `old` to `new`, replacing a file that is there."""
        ...

    def remove(self, path: str) -> None:
        """Unlink a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make renames, creations and removals in the directory durable. It blocks."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock on the file. Raise BlockingIOError when another process has it."""
        ...

    def usage(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes of the file system that holds `path`. It may block."""
        ...

    def open_files_limit(self) -> int:
        """Return how many files, connections included, this process may have open."""
        ...

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run a system call or a kernel call in the pool; never Python work."""
        ...


class FileRange(Protocol):
    """Bytes of a file that wait to be sent. `pin` and `release` keep its segment from being closed meanwhile."""

    @property
    def file(self) -> File:
        """The open file."""
        ...

    @property
    def position(self) -> int:
        """The first byte."""
        ...

    @property
    def length(self) -> int:
        """Return the number of bytes; the file holds at least these."""
        ...

    def release(self) -> None:
        """Say that the range was sent or will never be; called exactly once by the sender."""
        ...


Sendable = Buffer | FileRange
"""An item in a connection's send queue: bytes, or a range of a file."""


class Transport(Protocol):
    """One side of a connection, shaped like an asyncio transport."""

    def write(self, data: Buffer) -> None:
        """Queue bytes; they leave in order."""
        ...

    def writelines(self, parts: Sequence[Sendable]) -> None:
        """Queue several parts; file ranges are accepted by the transports of `Network.listen` only."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return how many bytes of memory the send queue takes: buffers of which the socket has not taken all."""
        ...

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None:
        """Call `callback` each time that the socket has taken something after `writelines` has returned.

        `before` is called before that is sent.
        """
        ...

    def pause_reading(self) -> None:
        """Stop receiving until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Receive again."""
        ...

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        ...

    def close(self) -> None:
        """Send what is queued, then close."""
        ...

    def abort(self) -> None:
        """Close at once and drop what is queued."""
        ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return facts such as `peername` and `sockname`, each (host, port, ...), and `ssl_object` with TLS."""
        ...


class BufferedProtocol(Protocol):
    """The callbacks of a transport, in the shape of `asyncio.BufferedProtocol`."""

    def connection_made(self, transport: Any) -> None:
        """Start; `transport` is a `Transport`."""
        ...

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        """Return writable memory for the next bytes; empty from a wire of a listener that has just paused reading."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """Take the `nbytes` that were put into the last buffer."""
        ...

    def eof_received(self) -> bool | None:
        """Note that the other side sends no more; a false value closes the connection."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone; called once."""
        ...

    def pause_writing(self) -> None:
        """Note that the send queue is above its high mark."""
        ...

    def resume_writing(self) -> None:
        """Note that the send queue has drained."""
        ...


class Listener(Protocol):
    """An open listening port."""

    @property
    def port(self) -> int:
        """The bound port, also when 0 was asked for."""
        ...

    def pause_accepting(self) -> None:
        """Leave new connections waiting until `resume_accepting`."""
        ...

    def resume_accepting(self) -> None:
        """Accept connections again."""
        ...

    def close(self) -> None:
        """Accept no more; open connections stay."""
        ...


class ClientTls(Protocol):
    """The TLS of connections to brokers."""

    async def context(self) -> ssl.SSLContext:
        """Return the context of the next connection. Raise OSError when a store can no longer be read."""
        ...

    def server_hostname(self, host: str) -> str:
        """Return the name for which the certificate of the broker at `host` must be valid, which SNI sends."""
        ...


class ServerTls(Protocol):
    """The TLS of the connections that a listener accepts."""

    @property
    def max_handshakes(self) -> int:
        """Return the bound of handshakes in progress; beyond it one is given up."""
        ...

    @property
    def handshake_timeout_ms(self) -> int:
        """Return the time after which a handshake is given up."""
        ...

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        ...

    def admit(self, host: str) -> int | None:
        """Count a connection before its handshake, and return None; else for how many ms it is kept, then closed."""
        ...

    def release(self, host: str) -> None:
        """Count a connection no more that was admitted, and whose handshake came to nothing."""
        ...

    def handshake_failed(self, host: str, reason: str) -> None:
        """Note that a client's handshake came to nothing."""
        ...


class Network(Protocol):
    """TCP."""

    async def listen(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """Accept connections, a new `make()` for each. Raise OSError when the address is taken.

        With `tls` that is after the handshake; the transport's `ssl_object` knows the client's certificate.
        """
        ...

    async def connect(
        self,
        host: str,
        port: int,
        make: Callable[[], BufferedProtocol],
        tls: ClientTls | None = None,
    ) -> BufferedProtocol:
        """Connect and return the protocol that `make()` returned. Raise OSError when the connection fails.

        With `tls`, a failed handshake is such a failure: `ssl.SSLError` is an OSError.
        """
        ...


class Environment(Protocol):
    """The I/O of one process: production passes the operating system's, the simulator its own."""

    @property
    def clock(self) -> Clock:
        """The machine's clock."""
        ...

    @property
    def random(self) -> Random:
        """The machine's randomness."""
        ...

    @property
    def disk(self) -> Disk:
        """The machine's file systems."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of memory that the machine has, or that this process may use of it."""
        ...

    @property
    def network(self) -> Network:
        """The machine's network."""
        ...
