"""A client's tickets from a key tab are renewed by the settings of Kafka, beside a real KDC."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kavka.client import Producer
from kavka.client.admin import Admin
from support.kerberos import Site, jaas, site_in
from support.sasl import Server, run_beside
from support.waiting import until


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("kerberos") / "realm") as made:
        yield made


@pytest.mark.long
def test_tickets_are_got_again_before_they_end_without_another_connection(
    tmp_path: Path, site: Site
) -> None:
    frank = site.realm.keytab("frank", options=["-maxlife", '"8 seconds"'])
    log = site.realm.directory / "kdc.log"

    def first_tickets() -> list[float]:
        """Return when the KDC gave tickets by a key tab."""
        lines = [line for line in log.read_text().splitlines() if "AS_REQ" in line]
        given = [line for line in lines if "ISSUE" in line and "frank" in line]
        return [float(line.partition("authtime ")[2].partition(",")[0]) for line in given]

    async def story(server: Server) -> None:
        config = {
            "bootstrap.servers": f"localhost:{server.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": jaas(frank, "frank"),
            "sasl.kerberos.ticket.renew.window.factor": "0.6",
            "sasl.kerberos.ticket.renew.jitter": "0",
            "sasl.kerberos.min.time.before.relogin": "0",
        }
        async with Producer(config) as producer:
            await producer.send("t", b"first")
            connections = set(server.broker.dispatcher.connections)
            logins = server.counts["CLIENTS", "GSSAPI", True]
            before = len(first_tickets())
            await until(lambda: len(first_tickets()) >= before + 3)
            # The client has done nothing meanwhile, and each came before the end of those before.
            assert server.counts["CLIENTS", "GSSAPI", True] == logins
            given = first_tickets()[before - 1 :]
            between = [later - earlier for earlier, later in pairwise(given)]
            assert all(seconds < 8 for seconds in between), between
            # All first tickets have ended: another connection works.
            async with Admin(config) as admin:
                assert "t" in await admin.list_topics()
            assert connections & set(server.broker.dispatcher.connections)
        held = len(first_tickets())
        gc.collect()
        await asyncio.sleep(10)  # time: a client that is closed gets no more tickets
        assert len(first_tickets()) <= held + 1

    run_beside(tmp_path, story, **site.broker_settings())
