"""A network of the run's own: each machine of the cluster is a network namespace, and a router between them drops.

The run itself lives in namespaces, too (`isolate`): of processes, so that nothing survives it, of mounts, so that small
disks are its own, and of networks. Where one is not root, a user namespace makes it so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

_INSIDE = "KAVKA_CHAOS_ISOLATED"
_UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_AS_ROOT = ["--user", "--map-root-user"]
CLIENTS = "clients"
"""The machine on which the load, and the run itself, are."""
_REQUIRED = (
    "ip link set lo up && ip link add name a0 type veth peer name b0"
    " && ip rule add from 10.99.0.1 to 10.99.0.2 blackhole"
    " && echo 1 > /proc/sys/net/ipv4/ip_forward && mount -t tmpfs -o size=1m tmpfs /mnt"
)


def isolate(arguments: Sequence[str]) -> str | None:
    """Continue in namespaces: this process becomes `python -m kavka_chaos` there. Return why not, None when inside."""
    if os.environ.get(_INSIDE):
        return None
    refusal = "no unshare command"
    for more in ([], _AS_ROOT):
        command = [*_UNSHARE, *more]
        try:
            subprocess.run([*command, "sh", "-c", _REQUIRED], check=True, capture_output=True)
        except FileNotFoundError:
            break
        except subprocess.CalledProcessError as error:
            refusal = error.stderr.decode(errors="replace").strip().splitlines()[-1]
            continue
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", [*command, sys.executable, "-m", "kavka_chaos", *arguments])
    return refusal


class Network(Protocol):
    """Machines by name, and the links between them."""

    description: str
    has_disks: bool
    """True if small disks may be mounted."""

    def address(self, machine: str) -> str:
        """Return the address on which a machine's processes listen."""

    def within(self, machine: str) -> list[str]:
        """Return what goes in front of a command that is to run on a machine."""

    def runs(self, machine: str, pid: int) -> None:
        """Learn which process is a machine's."""

    def shown(self, machine: str, port: int) -> str:
        """Return where others reach a port of a machine."""

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing through from one machine to another."""

    def join(self, sender: str, receiver: str) -> None:
        """Take one `cut` back."""

    def close(self) -> None:
        """End it."""


class Namespaces:
    """Machines by name, each with an address; `clients` is this process's own namespace."""

    description = "network namespaces around a router"
    has_disks = True

    def __init__(self, machines: Sequence[str]) -> None:
        """Build it: needs `isolate`."""
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses: dict[str, str] = {}
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._router = self._hold("router")
        for name in ("all", "default"):
            _write(self._router, f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "0")
            # a reverse path that is cut must not count as a forged address
            _write(self._router, f"/proc/sys/net/ipv4/conf/{name}/accept_local", "1")
        _write(self._router, "/proc/sys/net/ipv4/ip_forward", "1")
        for number, name in enumerate([CLIENTS, *machines]):
            self._connect(number, name)

    def address(self, machine: str) -> str:
        """Return a machine's address."""
        return self._addresses[machine]

    def within(self, machine: str) -> list[str]:
        """Return what goes in front of a command that is to run on a machine."""
        return [] if machine == CLIENTS else _enter(self._holders[machine].pid)

    def runs(self, machine: str, pid: int) -> None:
        """Processes are where they were started."""

    def shown(self, machine: str, port: int) -> str:
        """Return where others reach a port of a machine."""
        return f"{self._addresses[machine]}:{port}"

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing through from one machine to another: packets vanish."""
        self._cuts[sender, receiver] += 1
        if self._cuts[sender, receiver] == 1:
            self._rule("add", sender, receiver)

    def join(self, sender: str, receiver: str) -> None:
        """Take one `cut` back."""
        self._cuts[sender, receiver] -= 1
        if self._cuts[sender, receiver] == 0:
            self._rule("del", sender, receiver)

    def close(self) -> None:
        """End what holds the namespaces."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def _rule(self, verb: str, sender: str, receiver: str) -> None:
        pair = f"from {self._addresses[sender]} to {self._addresses[receiver]}"
        _ip(_enter(self._router), f"rule {verb} {pair} blackhole")

    def _hold(self, name: str) -> int:
        """Return the process id of one that does nothing in a network namespace of its own."""
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000000"], stdout=subprocess.PIPE
        )
        self._holders[name] = holder
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n", f"no namespace for {name}"
        return holder.pid

    def _connect(self, number: int, name: str) -> None:
        pid = os.getpid() if name == CLIENTS else self._hold(name)
        gateway, address = f"10.99.{number}.1", f"10.99.{number}.2"
        _ip(
            _enter(self._router),
            f"link add name v{number} type veth peer name eth0 netns {pid}",
            f"addr add {gateway}/30 dev v{number}",
            f"link set v{number} up",
        )
        _ip(
            [] if name == CLIENTS else _enter(pid),
            "link set lo up",
            f"addr add {address}/30 dev eth0",
            "link set eth0 up",
            f"route add default via {gateway}",
        )
        self._addresses[name] = address


def _enter(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net"]


def _ip(within: Sequence[str], *lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run([*within, "ip", "-batch", "-"], input=text.encode(), check=True)


def _write(pid: int, path: str, text: str) -> None:
    subprocess.run([*_enter(pid), "sh", "-c", f"echo {text} > {path}"], check=True)


class SmallDisk:
    """A file system with little room, which can be filled and freed."""

    def __init__(self, path: Path, megabytes: int) -> None:
        """Mount it; it goes with the run."""
        path.mkdir(parents=True, exist_ok=True)
        self._ballast = path / "ballast"
        options = ["-o", f"size={megabytes}m"]
        subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(path)], check=True)
        self._path = path

    def fill(self) -> None:
        """Leave no byte: one file takes all blocks."""
        with self._ballast.open("ab", buffering=0) as sink:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        sink.write(bytes(size))

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Remove it, with its files, also when one is still open."""
        subprocess.run(["umount", "--lazy", str(self._path)], check=True)
