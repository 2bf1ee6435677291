"""A consumer's group membership, as a producer needs it to commit offsets in a transaction (KIP-447)."""

from __future__ import annotations

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """A member of a group in one generation; only the id for a consumer with manual assignment."""

    group_id: str
    generation_id: int = -1
    """-1 disables the coordinator's check: a member that was removed can then still commit."""
    member_id: str = ""
    group_instance_id: str | None = None
