"""The admin client: what Kafka's tools do, each request to the broker that can answer it."""

from kavka.client.admin.admin import Admin
from kavka.client.admin.configs import AlterOp, ConfigEntry, ConfigOp, ConfigResource, ResourceType
from kavka.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from kavka.client.admin.nodes import ClusterDescription, LogDir, LogDirReplica
from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription

__all__ = [
    "Admin",
    "AlterOp",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigOp",
    "ConfigResource",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "LogDir",
    "LogDirReplica",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "TopicDescription",
]
