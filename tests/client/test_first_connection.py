"""The first connection of a client: brokers that are not there yet, and what is no broker."""

import asyncio
import logging
import socket
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

import kavka
from kavka.client import Admin, Consumer, Producer, blocking

PACKAGE = Path(kavka.__file__).parent
CLIENTS = {
    Producer: "max.block.ms",
    Consumer: "default.api.timeout.ms",
    Admin: "default.api.timeout.ms",
}
WARNING = "Connection to node -1 (broker:9092) could not be established. Node may not be available."


async def opened(client_class, settings, network):
    async with client_class(settings, network=network):
        pass


@pytest.mark.timeout(60)
@pytest.mark.parametrize("client_class", CLIENTS)
def test_a_client_that_is_made_before_its_broker_runs_waits_for_it(
    broker, settings, client_class, caplog
):
    broker.is_down = True

    class Starting(logging.Handler):
        """Starts the broker once the client has warned that it is not there."""

        def emit(self, record):
            broker.is_down = WARNING not in record.getMessage()

    starting = Starting()
    logging.getLogger("kavka.client.cluster").addHandler(starting)
    try:
        asyncio.run(opened(client_class, settings, broker))
    finally:
        logging.getLogger("kavka.client.cluster").removeHandler(starting)
    assert caplog.text.count("could not be established") == 1
    assert "Trying again for 60000 ms" in caplog.text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("client_class", CLIENTS)
def test_without_a_broker_the_reason_is_one_sentence_without_frames_of_the_client(
    broker, settings, client_class
):
    broker.is_down = True
    limited = settings | {CLIENTS[client_class]: 20}
    sentence = (
        "cannot reach any of bootstrap.servers [broker:9092]: broker:9092 is down; tried for 20 ms"
    )
    with pytest.raises(ConnectionError) as caught:
        asyncio.run(client_class(limited, network=broker).start())
    assert str(caught.value) == sentence
    assert own_frames(caught.value) == ["start"]

    with pytest.raises(ConnectionError) as caught:
        getattr(blocking, client_class.__name__)(limited, network=broker)
    assert str(caught.value) == sentence
    assert set(own_frames(caught.value)) == {"__init__"}


def own_frames(error):
    """Return the functions of kavka in what is shown of an error."""
    assert error.__suppress_context__
    assert error.__cause__ is None
    shown = traceback.extract_tb(error.__traceback__)
    return [frame.name for frame in shown if Path(frame.filename).is_relative_to(PACKAGE)]


@pytest.mark.timeout(60)
def test_a_server_that_is_no_kafka_broker_is_refused_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=answer, daemon=True).start()
    with listening, pytest.raises(ConnectionError, match="speaks HTTP"):
        blocking.Admin({"bootstrap.servers": f"127.0.0.1:{listening.getsockname()[1]}"})
    assert "could not be established" not in caplog.text


@pytest.mark.timeout(60)
def test_a_name_that_does_not_exist_is_refused_at_once_and_a_name_server_that_fails_is_not(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Unknown:
        reasons = [socket.EAI_AGAIN, socket.EAI_NONAME]

        async def connect(self, host, port, protocol, tls):
            raise socket.gaierror(self.reasons.pop(0), "no such name")

    with pytest.raises(ConnectionError, match="no such name"):
        asyncio.run(Admin(settings, network=Unknown()).start())  # type: ignore[arg-type]
    assert caplog.text.count("could not be established") == 1
    assert Unknown.reasons == []
