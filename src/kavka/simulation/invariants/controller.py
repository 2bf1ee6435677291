"""The controller: the right to change the registry, and the possible changes."""

from __future__ import annotations

from collections.abc import Container

from kavka.simulation.events import (
    ControllerElected,
    Event,
    StateWritten,
    UncleanElection,
)
from kavka.simulation.invariants.invariant import Invariant, Violation


class OneControllerPerEpoch(Invariant):
    """Epochs of controllers grow, and only the controller of the present one changes partitions' states.

    So a change of an in-sync set is always the controller's.
    """

    says = "partitions' states are written by the controller of the present epoch only"

    def __init__(self) -> None:
        """Begin without elections."""
        self._holders: dict[int, int] = {}

    def observe(self, event: Event) -> None:
        """Remember elections; hold each write against the last of them."""
        if isinstance(event, ControllerElected):
            newest = max(self._holders, default=0)
            if event.epoch <= newest:
                raise Violation(f"controller epoch {event.epoch} follows {newest}")
            self._holders[event.epoch] = event.session_id
        elif isinstance(event, StateWritten):
            # An election may be durable though the registry died before it could notify a broker.
            holder = self._holders.setdefault(event.controller_epoch, event.session_id)
            if event.session_id != holder:
                raise Violation(
                    f"{event.topic}-{event.partition}: session 0x{event.session_id:x} wrote {event.after} in "
                    f"controller epoch {event.controller_epoch}, which is held by 0x{holder:x}"
                )
            if event.after.controller_epoch > event.controller_epoch:
                raise Violation(
                    f"{event.topic}-{event.partition} names controller epoch {event.after.controller_epoch}, "
                    f"but the present one is {event.controller_epoch}"
                )


class StatesGoForward(Invariant):
    """Leader epochs never go back, another leader has another epoch, and comes from those that were in sync.

    Where unclean elections are allowed, and none of those is alive, another one may lead; it is alone in sync then, and
    recovers.
    """

    says = "leaders are elected from the in-sync set, in growing leader epochs"

    def __init__(self, unclean: Container[str] = ()) -> None:
        """Allow unclean elections in the topics `unclean`."""
        self._unclean = unclean

    def observe(self, event: Event) -> None:
        """Judge one change."""
        if isinstance(event, UncleanElection) and event.ready:
            raise Violation(
                f"{event.partition} elects {event.leader} though {event.ready} are in sync and alive"
            )
        if not isinstance(event, StateWritten):
            return
        before, after = event.before, event.after
        name = f"{event.topic}-{event.partition}"
        if not after.in_sync_replicas:
            raise Violation(f"{name} has no replica in sync: {after}")
        if after.leader >= 0 and after.leader not in after.in_sync_replicas:
            raise Violation(f"{name} is led by a replica that is not in sync: {after}")
        if before is None:
            return
        if after.leader_epoch < before.leader_epoch:
            raise Violation(f"{name} goes back in its leader epochs: {before}, then {after}")
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Violation(f"{name} has another leader in the same epoch: {before}, then {after}")
        elected = after.leader >= 0 and after.leader != before.leader
        if elected and after.leader not in before.in_sync_replicas:
            is_allowed = event.topic in self._unclean
            if not (is_allowed and after.recovering and after.in_sync_replicas == [after.leader]):
                raise Violation(
                    f"{name} elects {after.leader}, which was not in sync: {before}, then {after}"
                )
