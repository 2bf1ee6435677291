"""Topics and members of groups, drawn by hypothesis, for tests of assignors."""

from hypothesis import strategies as st

from kavka.client.consumer.group.assignors import Member
from kavka.wire.consumer_protocol import Subscription

TOPICS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), min_size=1)
"""Partition counts by topic."""
MEMBERS = st.lists(
    st.tuples(
        st.sampled_from(["m1", "m2", "m3", "m4"]),
        st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda member: member[0],
)
"""Member ids with their topics."""


def member(member_id, topics, instance_id=None, **more):
    """Return a member that is subscribed to topics."""
    return Member(member_id, instance_id, Subscription(topics=sorted(topics), **more))


def members_of(pairs):
    """Return the members of (id, topics)."""
    return [member(member_id, topics) for member_id, topics in pairs]
