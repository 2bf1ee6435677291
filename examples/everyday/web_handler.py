"""An ASGI application that writes each body, and answers when it is acknowledged: `uvicorn web_handler:app`."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.client import KafkaError, Producer

SERVERS = {"bootstrap.servers": os.environ.get("KAVKA_BOOTSTRAP_SERVERS", "localhost:9092")}
producer: Producer
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve: the producer is made in the event loop of the server, once for all requests of a process."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    try:
        written = await producer.send("events", body, headers={"path": scope["path"].encode()})
        status, answer = 201, {"partition": written.partition, "offset": written.offset}
    except (KafkaError, OSError) as error:
        status, answer = 503, {"error": str(error)}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def lifespan(receive: Receive, send: Send) -> None:
    """Start the producer with the server; close it, which sends what waits, when the server stops."""
    global producer
    producer = Producer(
        SERVERS | {"linger.ms": 5, "delivery.timeout.ms": 5000, "request.timeout.ms": 4000}
    )
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await producer.start()
        else:
            await producer.close()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
