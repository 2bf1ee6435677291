"""The consumer: subscription, assignors and batches (pure), fetcher, coordinator and `Consumer` (shells)."""

from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches
from kavka.client.consumer.consumer import Consumer
from kavka.client.consumer.coordinator import RebalanceListener
from kavka.client.consumer.subscription import OffsetAndMetadata

__all__ = ["Consumer", "ConsumerRecord", "FetchedBatches", "OffsetAndMetadata", "RebalanceListener"]
