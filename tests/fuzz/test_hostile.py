"""Random bytes, torn frames, lies, floods and half-closed sockets: the broker lives, and says one line of each."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from kavka_fuzz.hostile import Attack, attack, attacks, floods
from kavka_fuzz.target import Target

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(600)]

SEED = 17
ATTACKS = 800


def test_hostile_connections_end_without_a_traceback(target: Target) -> None:
    random = Random(SEED)
    chosen = [*islice(attacks(random, target.known), ATTACKS), *floods(random, target.known)]
    assert not attack(target, chosen)
    target.check()


def test_every_kind_of_attack_is_drawn(target: Target) -> None:
    random = Random(SEED)
    names = {each.name for each in islice(attacks(random, target.known), ATTACKS)}
    assert len(names) == 10
    assert any(each.half_close for each in islice(attacks(random, target.known), 100))


def test_refused_connection_is_one_line(target: Target) -> None:
    target.log_lines()
    assert not attack(target, [Attack("random", b"GET / HTTP/1.1\r\n\r\n")])
    with target.process.output.open() as log:
        closed = [line for line in log if "WARNING connection closed" in line]
    assert len(closed) == 1
