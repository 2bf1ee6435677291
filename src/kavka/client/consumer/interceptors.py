"""The interceptors of a consumer (`interceptor.classes`): what they raise is logged, as in the Java client."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kavka.client.consumer.batches import FetchedBatches
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.ids import TopicPartition

log = logging.getLogger(__name__)


class ConsumerInterceptors:
    """Interceptors, called in their order."""

    def __init__(self, interceptors: Iterable[Any]) -> None:
        """Take objects with `on_consume` and `on_commit`."""
        self._interceptors = list(interceptors)

    def on_consume(self, taken: list[FetchedBatches]) -> list[FetchedBatches]:
        """Return what the interceptors make of the batches of one poll."""
        for interceptor in self._interceptors:
            try:
                taken = interceptor.on_consume(taken)
            except Exception:  # the records are taken already: raising would lose them
                log.exception("interceptor failed in on_consume")
        return taken

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Report offsets that were committed."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # the offsets are committed already
                log.exception("interceptor failed in on_commit")
