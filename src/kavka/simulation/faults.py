"""Fault models: what may fail in a run, together, and what the product promises nevertheless.

Losing more than a promise covers is no finding. Kafka does not sync before it acknowledges, so a host that
loses power loses acknowledged records unless `flush.messages` says otherwise; a process that is killed loses
nothing, because the page cache is the kernel's. Each run therefore states its model, and the invariants follow
from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Durability(Enum):
    """The data that must survive the faults of a model."""

    EVERYTHING_ACKNOWLEDGED = "everything that was acknowledged"
    A_PREFIX = "a prefix of each log that is valid"


class Fault(Enum):
    """A fault that the nemesis may inject."""

    KILL = "kill the broker"
    KILL_IN_WRITE = "kill the broker in the middle of a write"
    STOP = "stop the broker as an operator does"
    PAUSE = "let the broker stand still"
    LOSE_POWER = "crash the broker's host"
    KILL_CLIENT = "kill a client"
    PAUSE_CLIENT = "let a client stand still"
    RESET = "break connections"
    CUT = "cut a link"
    CUT_ONE_WAY = "cut one direction of a link"
    SLOW_LINK = "make a link slow"
    SLOW_DISK = "make the disk slow"
    FAIL_DISK = "let calls of the disk fail"
    FILL_DISK = "leave almost no room on the disk"
    COLD = "empty the page cache"
    JUMP_CLOCK = "set a wall clock"
    # What needs several brokers:
    KILL_CONTROLLER = "kill the controller's broker"
    KILL_ALL = "kill all brokers"
    DEPOSE_CONTROLLER = "end the session of the controller's broker"
    EXPIRE_SESSION = "end a broker's session with the registry"
    CUT_REGISTRY = "cut a broker off the registry"
    SLOW_REGISTRY = "make a broker's way to the registry slow"
    CUT_BROKERS = "cut the link between two brokers"
    CUT_BROKERS_ONE_WAY = "cut one direction between two brokers"
    ISOLATE = "cut a broker off all other brokers"
    SPLIT = "split the brokers into two parts"
    SLOW_BROKERS = "make the links between two brokers slow"
    KILL_REGISTRY = "kill the registry's process, which comes back with what is on its disk"


_PROCESS = (Fault.KILL, Fault.KILL, Fault.KILL_IN_WRITE, Fault.STOP, Fault.PAUSE)
_CLIENT = (Fault.KILL_CLIENT, Fault.PAUSE_CLIENT)
_NETWORK = (Fault.RESET, Fault.RESET, Fault.CUT, Fault.CUT_ONE_WAY, Fault.SLOW_LINK)
_MACHINE = (Fault.SLOW_DISK, Fault.COLD, Fault.JUMP_CLOCK)


@dataclass(frozen=True, slots=True)
class FaultModel:
    """The possible faults, and the guarantees that remain."""

    name: str
    says: str
    faults: tuple[Fault, ...]
    durability: Durability
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the broker without which the promise is not made."""


CALM = FaultModel("calm", "nothing fails", (), Durability.EVERYTHING_ACKNOWLEDGED)

NETWORK = FaultModel(
    "network",
    "connections break, links are cut and slow; no process and no disk fails",
    _NETWORK,
    Durability.EVERYTHING_ACKNOWLEDGED,
)

PROCESSES = FaultModel(
    "processes",
    "brokers and clients are killed and stand still, disks are slow, links break; the page cache survives",
    _PROCESS + _CLIENT + _NETWORK + _MACHINE,
    Durability.EVERYTHING_ACKNOWLEDGED,
)

POWER_WITH_FLUSH = FaultModel(
    "power, flushed",
    "hosts lose power, but every batch is synced before it is acknowledged",
    (*_PROCESS, *_NETWORK, *_MACHINE, Fault.LOSE_POWER, Fault.LOSE_POWER),
    Durability.EVERYTHING_ACKNOWLEDGED,
    {"log.flush.interval.messages": "1"},
)

POWER = FaultModel(
    "power",
    "hosts lose power and nothing is synced by request: the end of a log may be lost, and nothing else",
    (*_PROCESS, *_MACHINE, Fault.LOSE_POWER, Fault.LOSE_POWER),
    Durability.A_PREFIX,
)

DISKS = FaultModel(
    "disks",
    "writes and syncs fail and the disk is full for a while; brokers are killed and started again",
    (*_PROCESS, *_MACHINE, Fault.FAIL_DISK, Fault.FAIL_DISK, Fault.FILL_DISK, Fault.FILL_DISK),
    Durability.EVERYTHING_ACKNOWLEDGED,
)

MODELS = (CALM, NETWORK, PROCESSES, PROCESSES, PROCESSES, POWER_WITH_FLUSH, POWER, DISKS)
"""The models a seed chooses from; one that stands here twice is chosen twice as often."""
