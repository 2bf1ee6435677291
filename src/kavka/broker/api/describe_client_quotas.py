"""DescribeClientQuotas: which quotas users, clients and addresses have."""

from __future__ import annotations

from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Answer that there are none: quotas cannot be set (AlterClientQuotas is not served)."""
    return DescribeClientQuotasResponse(entries=[])
