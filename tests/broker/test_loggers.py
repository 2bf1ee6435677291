"""Levels of loggers as an administrator sees and changes them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from support.config_requests import APPEND, DELETE, LOGGER, SET, Change, altered, described
from support.one_broker import Run, Served

NAME = "kavka.broker.broker"
FROM_LOGGERS = 6


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Give back the levels that the loggers of this process had."""
    loggers = [logging.getLogger(name) for name in ("kavka", NAME)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def level(served: Served, name: str) -> str:
    return next(
        row.value for row in (await described(served, LOGGER, "0")).configs if row.name == name
    )


async def change(served: Served, *changes: Change, entity: str = "0") -> Any:
    (response,) = await altered(served, (LOGGER, entity, list(changes)))
    return response


def test_a_level_is_set_and_taken_away_again(run: Run) -> None:
    async def story(served: Served) -> None:
        assert (await change(served, ("root", SET, "ERROR"))).error_code == 0
        assert await level(served, NAME) == "ERROR"
        assert (await change(served, (NAME, SET, "TRACE"))).error_code == 0
        assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
        assert (await level(served, NAME), await level(served, "root")) == ("TRACE", "ERROR")
        assert (await change(served, (NAME, DELETE, None))).error_code == 0
        assert await level(served, NAME) == "ERROR"
        rows = (await described(served, LOGGER, "0")).configs
        assert {(r.config_source, r.is_sensitive, r.read_only) for r in rows} == {
            (FROM_LOGGERS, False, False)
        }

    run(story)


@pytest.mark.parametrize(
    ("name", "what", "value", "code"),
    [
        (NAME, SET, "LOUD", ErrorCode.INVALID_CONFIG),
        (NAME, SET, "debug", ErrorCode.INVALID_CONFIG),
        ("kavka.no.such", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("kavka.no.such", DELETE, None, ErrorCode.INVALID_CONFIG),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST),
        (NAME, APPEND, "INFO", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_with_all_that_come_with_it(
    run: Run, name: str, what: int, value: str | None, code: ErrorCode
) -> None:
    other = "kavka.broker.control.topics"

    async def story(served: Served) -> None:
        before = await level(served, other)
        response = await change(served, (other, SET, "FATAL"), (name, what, value))
        assert response.error_code == code
        assert await level(served, other) == before

    run(story)


@pytest.mark.parametrize("entity", ["", "1", "x"])
def test_loggers_of_another_broker_are_refused(run: Run, entity: str) -> None:
    async def story(served: Served) -> None:
        assert (await described(served, LOGGER, entity)).error_code == ErrorCode.INVALID_REQUEST
        response = await change(served, ("root", SET, "INFO"), entity=entity)
        assert response.error_code == ErrorCode.INVALID_REQUEST

    run(story)


def test_levels_are_not_replaced_all_at_once(run: Run) -> None:
    async def story(served: Served) -> None:
        config = AlterConfigsRequestConfig(name="root", value="INFO")
        asked = AlterConfigsRequestResource(
            resource_type=LOGGER, resource_name="0", configs=[config]
        )
        (response,) = (await served.send(AlterConfigsRequest(resources=[asked]))).responses
        assert response.error_code == ErrorCode.INVALID_REQUEST

    run(story)
