"""Handlers name the parts that they are given: each name is a part, and each annotation the part's type."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from kavka.broker.handler_parts import HandlerParts
from kavka.broker.lazy import Lazy
from kavka.broker.lazy_parts import LazyParts
from kavka.broker.requests.refusals import FailureReason
from kavka.broker.requests.served_apis import SUPPORTED_APIS, handler_module
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey
from kavka.wire.messages.delete_groups import DeleteGroupsRequest
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from support.access_requests import errors_in
from support.one_broker import Run, Served


def lazy_type(name: str) -> str:
    """Return the type of a lazy part: that of the function that makes it."""
    made: str = getattr(LazyParts, f"_make_{name}").__annotations__["return"]
    return made


def parameters_of(key: ApiKey) -> dict[str, str]:
    """Return the parts of a handler, with their types."""
    module = import_module(handler_module(key))
    maker = getattr(module, "Handler", None)
    function = module.handle if maker is None else maker.__init__
    names = inspect.signature(function).parameters
    if maker is None:
        assert [*names][-2:] == ["context", "request"]
    else:
        assert [*inspect.signature(maker.handle).parameters] == ["self", "context", "request"]
    return {n: p.annotation for n, p in names.items() if n not in {"self", "context", "request"}}


@pytest.mark.parametrize("key", SUPPORTED_APIS, ids=lambda key: key.name)
def test_a_handlers_parameters_are_parts_by_name_and_type(key: ApiKey) -> None:
    declared = HandlerParts.__annotations__
    for name, annotation in parameters_of(key).items():
        if name in declared:
            assert annotation == declared[name], name
        else:
            assert annotation in {lazy_type(name), f"Lazy[{lazy_type(name)}]"}, name


class Counted:
    """A lazy part that counts how often it was made."""

    def __init__(self) -> None:
        self.made = 0
        self.part = Lazy(self._make)

    def _make(self) -> str:
        self.made += 1
        return "the verifier"


def parts_with(verifier: Lazy[str]) -> HandlerParts:
    fields = dict.fromkeys(HandlerParts.__match_args__, cast(Any, None))
    lazy: Any = SimpleNamespace(verifier=verifier)
    return HandlerParts(**fields | {"lazy": lazy, "has_own_registry": True})


def test_a_part_is_made_when_its_handler_is_bound_or_asks_for_it() -> None:
    counted = Counted()
    parts = parts_with(counted.part)

    def at_once(has_own_registry: bool, verifier: Verifier, context: str, request: str) -> Any:
        return has_own_registry, verifier, context, request

    def later(verifier: Lazy[Verifier], context: str, request: str) -> Any:
        return verifier

    module: Any = SimpleNamespace(handle=later)
    assert parts.bind(module)("context", "request") is counted.part
    assert counted.made == 0
    module = SimpleNamespace(handle=at_once)
    handle = parts.bind(module)
    assert counted.made == 1
    assert handle("context", "request") == (True, "the verifier", "context", "request")


def test_a_handlers_class_is_made_once_with_its_parts() -> None:
    made = []

    class Handler:
        def __init__(self, verifier: Verifier) -> None:
            made.append(verifier)

        def handle(self, context: str, request: str) -> str:
            return context + request

    module: Any = SimpleNamespace(Handler=Handler)
    handle = parts_with(Counted().part).bind(module)
    assert [handle("a", "b"), handle("c", "d")] == ["ab", "cd"]
    assert made == ["the verifier"]


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        (ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest()),
        (ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=["g"])),
    ],
)
def test_a_request_whose_handler_cannot_be_made_is_answered_and_the_next_makes_it(
    run: Run, caplog: pytest.LogCaptureFixture, key: ApiKey, request_: Any
) -> None:
    async def story(served: Served) -> None:
        fail_to_make_a_handler(served)
        failed = await served.send(request_)
        assert errors_in(failed) == [ErrorCode.UNKNOWN_SERVER_ERROR]
        answered = await served.send(request_)
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in errors_in(answered)
        counted = next(iter(served.broker.dispatcher.refusals.failed))
        assert counted == (key, FailureReason.INTERNAL_ERROR)

    run(story)
    (line,) = [r for r in caplog.records if r.levelname == "ERROR"]
    assert line.getMessage() == f"handler not made, request refused api={key.title} peer=127.0.0.1"
    assert line.exc_info is not None
    assert str(line.exc_info[1]) == "no room"


def test_a_client_that_waits_for_no_response_is_closed_when_the_handler_cannot_be_made(
    run: Run,
) -> None:
    async def story(served: Served) -> None:
        other = await served.another()
        fail_to_make_a_handler(served)
        with pytest.raises(ConnectionError):
            await other.produce("t", b"a", acks=0)
        assert (await served.send(DescribeClusterRequest())).error_code == 0

    run(story)


def fail_to_make_a_handler(served: Served) -> None:
    dispatcher = served.broker.dispatcher
    bind = dispatcher._bind

    def failing(module: ModuleType) -> Any:
        dispatcher._bind = bind
        raise OSError("no room")

    dispatcher._bind = failing


Verifier = str
