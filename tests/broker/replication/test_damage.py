"""A disk that has lost its data: clients get an error, and the operator a log line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.partitions.replica import Replica
from kavka.errors import ErrorCode
from support.cold_files import patch_cached
from support.follower import fetch, led, only

Play = Callable[..., None]
CONSUMER, FOLLOWER = -1, 2


def spoil(replica: Replica, base_offset: int) -> None:
    """Overwrite the front of a segment, as a disk that rots does."""
    segment = Path(replica.log.path) / f"{base_offset:020}.log"
    content = segment.read_bytes()
    segment.write_bytes(bytes(20) + content[20:])


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("version", [11, 17])
@pytest.mark.parametrize("asking", [CONSUMER, FOLLOWER])
def test_damage_is_returned_to_readers_logged_and_counted(
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_cold: bool,
    version: int,
    asking: int,
) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 3)
        replica = cluster.replica(1)
        await peer.send(fetch(offset=3))
        spoil(replica, 1)
        if is_cold:
            patch_cached(monkeypatch)
        response = await peer.send(fetch(version, offset=1, replica=asking), version)
        assert only(response).error_code == ErrorCode.CORRUPT_MESSAGE
        assert replica.traffic.failed_fetch_requests == 1
        assert "partition cannot be read partition=t-0 reason=" in caplog.text

    play(story, log__segment__bytes="100")  # a segment for each batch
