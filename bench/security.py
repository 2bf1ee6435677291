"""The cost of ACLs and quotas for small requests: brokers with 10,000 ACLs, and with quotas, beside one with neither.

    QUICK=1 ROUNDS=3 COUNT=10000 make bench-security

Three brokers of ours, each in a process of its own and on loopback, that work in turns: in each round each of them, and
the one that begins changes. A client with one connection keeps up to 200 requests in flight, all the same bytes:

    produce   one record of 100 bytes, acks=1
    fetch     one such record
    metadata  of one topic

The client is User:ANONYMOUS, whom two of the ACLs allow what it does; the others are for 100 users, on topics and
groups, literal, prefixed and denied. With quotas, 1,000 users have some, and the client has rates that it does not
reach.

Printed are requests a second and the broker's processor time of one request, and for each round the ratio to the broker
with neither: medians, with the least and the most. All samples are in a file of bench/results.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from apache.results import print_now, write_results
from connections import Bench, call, fetch, framed, produce

from kavka.client import Admin, NewTopic
from kavka.client.admin import DEFAULT_ENTITY, ClientQuotaEntity
from kavka.client.admin.acls import AclBinding
from kavka.wire.frame import decode_response
from kavka.wire.messages.fetch import FetchResponse
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kavka.wire.messages.produce import ProduceResponse
from kavka_compat.brokers import Broker
from kavka_compat.ours import start_kavka
from support.access import AUTHORIZER, acl

_CHUNK = 100
_GOAL = 0.97
"""The share of the throughput that is left with ACLs."""
_FREE = "neither"


class Sample(NamedTuple):
    """One measurement."""

    requests_per_second: float
    cpu_microseconds: float
    """Processor time of the broker for one request."""


Samples = dict[tuple[str, str], list[Sample]]
"""By workload and broker."""


def acls(count: int) -> Iterator[AclBinding]:
    """Return so many ACLs; the first two are the client's."""
    yield acl("User:ANONYMOUS All Topic:t")
    yield acl("User:ANONYMOUS Describe Cluster:kafka-cluster")
    for number in range(count - 2):
        user = f"User:user-{number % 100}"
        yield (
            acl(f"{user} Read Topic:topic-{number}"),
            acl(f"{user} Write Topic:prefix-{number}-*"),
            acl(f"{user} Read Group:group-{number}"),
            acl(f"deny {user} Read Topic:topic-{number}"),
        )[number % 4]


async def prepare(bootstrap: str, kind: str, count: int) -> None:
    """Make the topic, and what the kind of broker has."""
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])
        if kind == "ACLs":
            all_of_them = list(acls(count))
            for begin in range(0, count, 500):
                await admin.create_acls(all_of_them[begin : begin + 500])
            assert len(await admin.describe_acls()) == count
        if kind == "quotas":
            rates = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12}
            some = {**rates, "request_percentage": 1e6}
            for begin in range(0, 1000, 100):
                users = [ClientQuotaEntity(f"user-{n}") for n in range(begin, begin + 100)]
                await admin.alter_client_quotas(dict.fromkeys(users, rates))
            each_client = ClientQuotaEntity("ANONYMOUS", DEFAULT_ENTITY)
            assert await admin.alter_client_quotas({each_client: some}) == {each_client: None}


@contextmanager
def broker(directory: Path, kind: str, count: int) -> Iterator[Broker]:
    """Prepare and run a broker; the client is a super user while ACLs are made, and not afterwards."""
    print_now(f"broker with {kind}")
    settings = {"authorizer.class.name": AUTHORIZER} if kind == "ACLs" else {}
    running = start_kavka(directory, {**settings, "super.users": "User:ANONYMOUS"})
    try:
        asyncio.run(prepare(running.bootstrap, kind, count))
    finally:
        running.process.stop()
    running = start_kavka(directory, settings)
    try:
        yield running
    finally:
        running.process.stop()


def error_of(what: str, response: bytes) -> int:
    """Return the error code of the topic in a response."""
    if what == "produce":
        produced = decode_response(ProduceResponse, 9, response)[1]
        return int(produced.responses[0].partition_responses[0].error_code)
    if what == "fetch":
        fetched = decode_response(FetchResponse, 11, response)[1]
        return int(fetched.responses[0].partitions[0].error_code)
    return int(decode_response(MetadataResponse, 9, response)[1].topics[0].error_code)


def measure(running: Broker, what: str, data: bytes, requests: int) -> Sample:
    """Send requests, and return what one cost; the first response must be one without an error."""
    bench = Bench(running.port, running.process.pid)
    sock = bench.connect()
    chunk = data * _CHUNK
    try:
        first = call(sock, data)
        assert error_of(what, first) == 0, (what, first)
        expected = len(first) + 4
        cpu, began = running.process.cpu_seconds(), time.perf_counter()
        sock.sendall(chunk)
        for number in range(requests // _CHUNK):
            if number + 1 < requests // _CHUNK:
                sock.sendall(chunk)
            left = expected * _CHUNK
            while left:
                got = len(sock.recv(left))
                if not got:
                    raise ConnectionError("closed")
                left -= got
        seconds = time.perf_counter() - began
        used = running.process.cpu_seconds() - cpu
    finally:
        sock.close()
        bench.close()
    return Sample(requests / seconds, used / requests * 1e6)


def run(brokers: Mapping[str, Broker], rounds: int, requests: int) -> Samples:
    """Measure all in turns, after a round that warms up."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    workloads = {"produce": produce(100), "fetch": fetch(1), "metadata": framed(asked, 9)}
    samples: Samples = {(what, kind): [] for what in workloads for kind in brokers}
    kinds = list(brokers)
    for number in range(rounds + 1):
        print_now(f"round {number} of {rounds}" if number else "warm-up")
        for what, data in workloads.items():
            for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
                sample = measure(brokers[kind], what, data, requests)
                if number:
                    samples[what, kind].append(sample)
    return samples


def lines(samples: Samples, count: int) -> list[dict[str, Any]]:
    """Return for each workload and kind its samples beside those of the broker with neither, as the page has them."""
    found = []
    for (what, kind), measured in samples.items():
        if kind == _FREE:
            continue
        for unit, position in (("requests/s", 0), ("CPU us/request", 1)):
            values = [sample[position] for sample in measured]
            free = [sample[position] for sample in samples[what, _FREE]]
            ratios = [mine / other for mine, other in zip(values, free, strict=True) if other]
            verdict = ""
            if kind == "ACLs" and position == 0:
                is_reached = statistics.median(ratios) >= _GOAL
                verdict = f"{'reached' if is_reached else 'MISSED'} (≥ {_GOAL})"
            found.append(
                {
                    "name": f"{what}, {f'{count:,} ACLs' if kind == 'ACLs' else kind}",
                    "unit": unit,
                    "apache": free,
                    "kavka": values,
                    "ratios": ratios,
                    "verdict": verdict,
                }
            )
    return found


def shown(values: list[float], form: str) -> str:
    """Return the median with the least and the most."""
    if not values:
        return "-"
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:{form}} ({least:{form}}-{most:{form}})"


def main() -> None:
    """Measure, print a table, and write the samples."""
    parser = argparse.ArgumentParser(description="What ACLs and quotas cost small requests.")
    parser.add_argument("--rounds", type=int, help="measured rounds (default 7, quick 2)")
    parser.add_argument("--requests", type=int, help="of each measurement (default 20,000)")
    parser.add_argument("--count", type=int, default=10_000, help="ACLs")
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests and ACLs")
    given = parser.parse_args()
    rounds = given.rounds or (2 if given.quick else 7)
    requests = given.requests or (2_000 if given.quick else 20_000)
    count = given.count // 10 if given.quick else given.count
    with tempfile.TemporaryDirectory(prefix="kavka-security-") as text:
        home = Path(text)
        with (
            broker(home / "free", _FREE, count) as free,
            broker(home / "acls", "ACLs", count) as with_acls,
            broker(home / "quotas", "quotas", count) as with_quotas,
        ):
            brokers = {_FREE: free, "ACLs": with_acls, "quotas": with_quotas}
            found = lines(run(brokers, rounds, requests), count)
    print(f"{count} ACLs, {rounds} rounds after a warm-up")
    print(f"{'workload':24}{'unit':16}{'neither':32}{'with':32}ratio by round")
    for line in found:
        without, values = shown(line["apache"], ",.1f"), shown(line["kavka"], ",.1f")
        ratios = shown(line["ratios"], ".3f")
        print(
            f"{line['name']:24}{line['unit']:16}{without:32}{values:32}{ratios}  {line['verdict']}"
        )
    path = write_results("security", rounds, given.quick, {"acls": count, "lines": found})
    print(f"all samples: {path}")


if __name__ == "__main__":
    main()
