"""The commands of the page about closing an open cluster, under load: producers, and a group, that lose nothing.

Three brokers of ours and a registry as real processes, started and restarted by the page's own commands in one shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kavka.settings.properties import parse_properties
from kavka.testing.history.workload import Load, Settings
from kavka_compat.asking import until
from kavka_compat.moving import MovingClient
from kavka_compat.processes import free_port
from kavka_compat.traffic import assert_nothing_is_wrong
from support.code_blocks import ROOT, blocks
from support.page_terminal import free_tens, is_free, shell_in

PAGE = ROOT / "docs" / "how-to" / "close-an-open-cluster.md"
RUN = f"run by {Path(__file__).resolve().relative_to(ROOT)}"

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(1200)]


class Page:
    """The page, section by section, with ports of the test's own."""

    def __init__(self, directory: Path) -> None:
        plain, secured = free_tens(2)
        self.directory = directory
        self.plain = ",".join(f"localhost:{plain}{n}" for n in (1, 2, 3))
        self.replaced = {
            "1909": plain,
            "1919": secured,
            "2181": str(free_port()),
        }
        self.sections = list(_sections())

    def client(self, user: str) -> dict[str, str]:
        """Return librdkafka's settings of an application, as the page writes them."""
        settings = parse_properties((self.directory / f"{user}.properties").read_text())
        settings["ssl.ca.location"] = str(self.directory / settings["ssl.ca.location"])
        return settings


def _sections() -> Iterator[tuple[str, list[str]]]:
    """Return the titles of the page with the blocks below each."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    titles = [(n, line[3:]) for n, line in enumerate(lines, 1) if line.startswith("## ")]
    ends = [n for n, _ in titles[1:]] + [len(lines)]
    found = [block for block in blocks(PAGE) if block.comment == RUN]
    for (begin, title), end in zip(titles, ends, strict=True):
        yield title, [block.text for block in found if begin < block.line < end]


def test_a_cluster_is_closed_while_clients_work_and_nothing_is_lost(tmp_path: Path) -> None:
    page = Page(tmp_path)
    with shell_in(tmp_path, page.replaced) as shell:
        (_, cluster), *others = [one for one in page.sections if one[1]]
        for text in cluster:
            shell.run(text)
        plain = {"bootstrap.servers": page.plain}
        client = MovingClient("billing", plain, plain, 180)
        settings = Settings(
            page.plain, topic="orders", partitions=3, readers=0, rate=50, timeout_seconds=180
        )
        with Load(settings, client=client) as load:
            for title, texts in others:
                load.wait_for(50)
                for text in texts:
                    shell.run(text)
                load.wait_for(50)
                if title.startswith("2."):
                    client.move(page.client("shop"), page.client("billing"))
                    until(lambda: client.left_behind() == 0, 120, "all clients have moved")
            verdict = load.finish()
        assert client.generation == 1
        assert_nothing_is_wrong(verdict)
        _assert_closed(page)
    _assert_logs_are_clean(tmp_path)


def _assert_closed(page: Page) -> None:
    """Insist that the plain ports are closed, and that users may do what the ACLs say and no more."""
    for address in page.plain.split(","):
        assert is_free(int(address.rpartition(":")[2]))
    assert _refusal(page.client("shop"), "invoices") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert _refusal(page.client("billing"), "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with Consumer({**page.client("shop"), "group.id": "billing"}) as consumer:
        with pytest.raises(KafkaException) as refused:
            consumer.commit(asynchronous=False)
        assert refused.value.args[0].code() in (
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError._NO_OFFSET,
        )


def _refusal(settings: dict[str, str], topic: str) -> int:
    """Return the code with which a record is refused; 0 when it is written."""
    codes: list[int] = []
    with Producer({**settings, "message.timeout.ms": 30_000}) as producer:
        producer.produce(
            topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0)
        )
        producer.flush(60)
    (code,) = codes
    return code


def _assert_logs_are_clean(directory: Path) -> None:
    for path in directory.glob("broker-*.log"):
        text = path.read_text(errors="replace")
        assert "Traceback (most recent call last)" not in text, text[-5000:]
        assert "denied principal=User:broker" not in text
        assert "-secret" not in text
