"""Kerberos beside Java: its clients at our broker, our clients at Apache Kafka 3.9, and the rules for principals."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.client import Consumer, Producer
from kavka.core.sasl.kerberos_names import NoUser, PrincipalRules, RuleError
from kavka.errors import AuthenticationFailed
from kavka.net.event_loop import MeasuredEventLoop
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.artifacts import jars, java
from kavka_compat.processes import free_port
from support.kerberos import REALM, SERVICE, Site, jaas, site_in
from support.sasl import Server, served

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

RULES = [
    "DEFAULT", "RULE:[1:$1]", "RULE:[2:$1]", "RULE:[2:$2.$1]/L", "RULE:[1:$1@$0](.*@REALM)s/@.*//", "RULE:[1:$0]U",
    "RULE:[1:$1](a.*)s/a/b/g", "RULE:[1:$1]s/(.)(.)/$2$1$12/", "RULE:[2:$1-$2](.*-admin)s/-admin$/_x/L", "RULE:[3:$1]",
    r"RULE:[1:$1]s/[a-z&&[^b]]/\$/g", r"RULE:[1:$1](\p{Lower}+)s/b*/-/g", "RULE:[1:$1]s/.*/x/g", "RULE:[1:$1/$0]",
    "RULE:[1:$1]s/(x)?a/<$1>/",
]  # fmt: skip
PRINCIPALS = [
    "a@REALM", "ab@REALM", "Alice@REALM", "bob@OTHER", "a/admin@REALM", "Kafka/node.One@OTHER", "a/b/c@REALM",
    "$1@REALM", "abcab@OTHER", "x\\y@REALM",
]  # fmt: skip
TEXTS = [*"ab$.-@ ", "$0", "$1", "$2", "x$1", "$1$1", "$1@$0", "$1.$2"]
PATTERNS = [
    *"abx.*+?|([{$^)",
    ".*",
    "(a)",
    "(b.*)",
    "[a-c]",
    "[^a]",
    "(?i)A",
    ".*@REALM",
    r"\w",
    r"\p{Upper}",
    "[a&&b]",
]
REPLACEMENTS = [*"aX-$", "$0", "$1", "$2", "$12", r"\$", "\\", "<$1>"]


def random_rule(chance: random.Random) -> str:
    """Return a rule of random parts, one in twenty without its last character."""

    def some(pieces: list[str]) -> str:
        return "".join(chance.choices(pieces, k=chance.choice((0, 1, 1, 1, 2, 3))))

    rule = f"RULE:[{chance.choice('112')}:{some(TEXTS)}]"
    if chance.random() < 0.5:
        rule += f"({some(PATTERNS)})"
    if chance.random() < 0.7:
        rule += f"s/{some(PATTERNS)}/{some(REPLACEMENTS)}/{chance.choice(('', 'g'))}"
    rule += chance.choice(("", "", "/L", "/U", "L"))
    return rule if chance.random() < 0.95 else rule[:-1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("kerberos") / "realm") as made:
        yield made


@pytest.fixture
def kafka() -> ApacheKafka:
    return ApacheKafka("3.9")


def as_java(site: Site) -> tuple[str, ...]:
    """Return the options of a JVM in the realm."""
    return (*SMALL, f"-Djava.security.krb5.conf={site.realm.krb5_conf}")


def client_properties(directory: Path, keytab: Path, principal: str) -> str:
    file = directory / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={jaas(keytab, principal)}\n"
    )
    return str(file)


def test_javas_producer_authenticates_again_on_its_connections_at_our_broker(
    tmp_path: Path, site: Site, kafka: ApacheKafka
) -> None:
    def produce(server: Server) -> None:
        at = f"bootstrap.servers=localhost:{server.port}"
        config = client_properties(tmp_path, site.alice, f"alice@{REALM}")
        produced = kafka.tool(
            "kafka-producer-perf-test",
            *("--topic", "t", "--num-records", "100", "--record-size", "10", "--throughput", "10"),
            *("--producer-props", at, "--producer.config", config),
            options=as_java(site),
        )
        assert "100 records sent" in produced.out
        assert server.counts["CLIENTS", "GSSAPI", True] >= 4
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    async def with_broker() -> None:
        settings = site.broker_settings(**{"connections.max.reauth.ms": "1500"})
        async with served(tmp_path, **settings) as server:
            await asyncio.to_thread(produce, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())


def test_our_clients_authenticate_at_apache_kafka(
    tmp_path: Path, site: Site, kafka: ApacheKafka
) -> None:
    port, controller = free_port(), free_port()
    settings = {
        "controller.quorum.voters": f"0@127.0.0.1:{controller}",
        "listeners": f"KERBEROS://localhost:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "KERBEROS",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.kerberos.gssapi.sasl.jaas.config": jaas(site.broker, SERVICE),
        "connections.max.reauth.ms": "2000",
    }
    config = {
        "bootstrap.servers": f"localhost:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": jaas(site.alice, "alice"),
    }

    async def story() -> None:
        async with Producer(config) as producer:
            for number in range(60):
                await producer.send("t", b"%d" % number)
                await asyncio.sleep(0.1)  # time: sessions end by the clock
        reading = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
        async with Consumer(reading) as consumer:
            consumer.subscribe(["t"])
            found = [(await anext(consumer)).value for _ in range(60)]
        assert found == [b"%d" % number for number in range(60)]
        with pytest.raises(
            AuthenticationFailed, match=r"Server nope/localhost@KAVKA\.TEST not found"
        ):
            await Producer({**config, "sasl.kerberos.service.name": "nope"}).start()

    with kafka.run_broker(tmp_path / "kafka", "kraft", settings, as_java(site)) as broker:
        asyncio.run(story())
        assert broker.process.alive()


def test_rules_make_the_users_that_they_make_in_java(kafka: ApacheKafka) -> None:
    chance = random.Random(7)
    cases = [(p, [r]) for p in PRINCIPALS for r in RULES]
    for _ in range(20_000):
        rules = [random_rule(chance), chance.choice(RULES)]
        cases.append((chance.choice(PRINCIPALS), rules))
    differing = []
    counts = {"user": 0, "no": 0, "refused": 0}
    for (principal, rules), javas in zip(cases, java_results(kafka, cases), strict=True):
        ours = our_result(principal, rules)
        counts[ours.partition(" ")[0]] += 1
        if ours != javas and not is_stricter(javas, ours):
            differing.append((principal, rules, javas, ours))
    assert differing == []
    assert min(counts.values()) > 1000, counts


def is_stricter(javas: str, ours: str) -> bool:
    """Return whether ours refuses what Java takes.

    A number of nothing, which Java finds when it tries the rule; a pattern that we do not translate; an empty name.
    """
    return ours == "refused early" or (javas, ours) == ("user ", "no user")


def java_results(kafka: ApacheKafka, cases: list[tuple[str, list[str]]]) -> list[str]:
    program = Path(__file__).parent / "java" / "ShortNames.java"
    path = ":".join(str(jar) for jar in jars(kafka.release))
    ran = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", path, str(program)],
        input="".join("\t".join([principal, *rules]) + "\n" for principal, rules in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


def our_result(principal: str, rules: list[str]) -> str:
    try:
        read = PrincipalRules(rules, "REALM")
    except RuleError as error:
        return "no rule" if "expected DEFAULT" in str(error) else "refused early"
    try:
        return f"user {read.user_of(principal)}"
    except NoUser:
        return "no user"
