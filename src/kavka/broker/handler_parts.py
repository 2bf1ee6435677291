"""The parts of a broker that its request handlers are given, each by its name.

A handler names what it works with: the parameters of `handle` before `context`, or those of its class `Handler`.
`HandlerParts.bind` finds each by the parameter's name, once, at the first request for the API;
`tests/broker/test_handler_parts.py` compares the parameters' types with those here. A part that not every broker needs
is imported and made at that time, or, where the parameter is annotated `Lazy[...]`, when the handler calls its `get`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.lazy import Lazy
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.broker.configs.broker_config import BrokerConfig
    from kavka.broker.configs.effective_configs import EffectiveConfigs
    from kavka.broker.control.control_requests import ControlRequests
    from kavka.broker.control.controller import Controller
    from kavka.broker.control.dynamic_configs import DynamicConfigs
    from kavka.broker.control.finalized_features import Features
    from kavka.broker.control.topics import Topics
    from kavka.broker.lazy_parts import LazyParts
    from kavka.broker.metadata.cache import MetadataCache
    from kavka.broker.partitions.replica_manager import ReplicaManager
    from kavka.broker.quotas.quota_manager import QuotaManager
    from kavka.broker.requests.pace import Slices
    from kavka.broker.requests.purgatory import Purgatory
    from kavka.broker.security.access_control import AccessControl
    from kavka.broker.security.delegation_tokens import DelegationTokens
    from kavka.broker.security.security_parts import SecurityParts
    from kavka.core.fetch_session import FetchSessionCache
    from kavka.ids import BrokerId
    from kavka.io import Clock, Disk, Random
    from kavka.net.request_budget import RequestBudget
    from kavka.registry.interface import Registry

_OF_THE_REQUEST: Final = ("self", "context", "request")


@frozen
class HandlerParts:
    """A broker's parts. `Broker` makes one when its id and registry are known, before the first request."""

    broker_id: BrokerId
    has_own_registry: bool
    config: BrokerConfig
    effective_configs: EffectiveConfigs
    """The settings in force now; `config` are those of the start."""
    clock: Clock
    random: Random
    disk: Disk
    registry: Registry
    slices: Slices
    request_budget: RequestBudget
    metadata: MetadataCache
    features: Features
    quotas: QuotaManager
    replica_manager: ReplicaManager
    topics: Topics
    dynamic_configs: DynamicConfigs
    controller: Controller
    control_requests: ControlRequests
    fetch_sessions: FetchSessionCache
    fetch_purgatory: Purgatory
    produce_purgatory: Purgatory
    lazy: LazyParts
    """The parts that not every broker needs."""
    security: SecurityParts
    """For what a listener that is added later brings with it."""
    access_control: AccessControl | None
    """The authorizer, its ACLs and the audit; None where there is none of them."""
    tokens: DelegationTokens | None
    """The delegation tokens; None without delegation.token.secret.key."""

    def bind(self, module: ModuleType) -> Callable[..., Any]:
        """Return the handler of a module of `broker.api` with its parts: it takes a context and a request."""
        maker = getattr(module, "Handler", None)
        if maker is None:
            return partial(module.handle, *self._parts_of(module.handle))
        handle: Callable[..., Any] = maker(*self._parts_of(maker.__init__)).handle
        return handle

    def _parts_of(self, function: Callable[..., Any]) -> list[Any]:
        annotations = function.__annotations__
        names = [n for n in annotations if n not in _OF_THE_REQUEST and n != "return"]
        return [self._part(name, is_lazy=annotations[name].startswith("Lazy[")) for name in names]

    def _part(self, name: str, *, is_lazy: bool) -> Any:
        if name in self.__match_args__:
            return getattr(self, name)
        lazy: Lazy[Any] = getattr(self.lazy, name)
        return lazy if is_lazy else lazy.get()
