"""Who commits offsets in a transaction: what a consumer tells a producer of its membership (KIP-447)."""

from __future__ import annotations

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """A member of a group in one generation; only the id for a consumer whose partitions nobody assigned."""

    group_id: str
    generation_id: int = -1
    """-1 has the coordinator check nothing: then nobody keeps a member that was thought dead from committing."""
    member_id: str = ""
    group_instance_id: str | None = None
