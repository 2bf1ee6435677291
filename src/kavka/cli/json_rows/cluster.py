"""Objects of `kavka cluster`, `features` and `broker-api-versions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.cli.json_lines.lines import Row, error_or_none
from kavka.client.admin.features import FeatureMetadata, FeatureUpdate
from kavka.client.metadata import BrokerAddress
from kavka.errors import KafkaError
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.api_versions import ApiVersionsResponse

_NAMED = frozenset(ApiKey)


def broker_apis_rows(
    found: Mapping[BrokerAddress, ApiVersionsResponse | Exception],
) -> list[Row]:
    """Return what brokers speak, and what they and this client would agree on."""
    return [
        {
            **_address(broker),
            "error": error_or_none(response),
            "apis": [] if isinstance(response, Exception) else _apis(response),
        }
        for broker, response in found.items()
    ]


def _apis(response: ApiVersionsResponse) -> list[Row]:
    served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return [_api(key, served.get(key)) for key in sorted({*served, *map(int, APIS)})]


def _api(key: int, served: tuple[int, int] | None) -> Row:
    first, last = served or (None, None)
    ours = APIS.get(key)
    usable = None
    if ours is not None and first is not None and last is not None:
        newest = min(last, ours.max_version)
        usable = newest if newest >= max(first, ours.min_version) else None
    return {
        "api_key": key,
        "name": ApiKey(key).title if key in _NAMED else None,
        "min_version": first,
        "max_version": last,
        "usable_version": usable,
    }


def endpoint_rows(brokers: Iterable[BrokerAddress]) -> list[Row]:
    """Return brokers; one that is fenced is not among them."""
    return [
        {**_address(broker), "state": "unfenced", "endpoint_type": "broker"} for broker in brokers
    ]


def _address(broker: BrokerAddress) -> dict[str, object]:
    return {
        "broker_id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
    }


def feature_rows(found: FeatureMetadata) -> list[Row]:
    """Return features with the levels that brokers have and use."""
    return [
        {
            "feature": name,
            "supported_min_version": lowest,
            "supported_max_version": highest,
            "finalized_version_level": found.finalized.get(name, 0),
            "epoch": found.finalized_epoch if found.finalized_epoch >= 0 else None,
        }
        for name, (lowest, highest) in sorted(found.supported.items())
    ]


def changed_feature_rows(
    updates: Mapping[str, FeatureUpdate],
    outcomes: Mapping[str, KafkaError | None],
    *,
    dry_run: bool,
) -> list[Row]:
    """Return what became of changes."""
    return [
        {
            "feature": name,
            "level": updates[name].max_version_level,
            "dry_run": dry_run,
            "error": error_or_none(refused),
        }
        for name, refused in sorted(outcomes.items())
    ]
