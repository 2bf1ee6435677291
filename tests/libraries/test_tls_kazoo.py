"""kazoo reaches a served registry over mutual TLS."""

from __future__ import annotations

from pathlib import Path

from kazoo.client import KazooClient

from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from support.tls import TlsFiles


def test_kazoo_writes_and_reads(tmp_path: Path) -> None:
    files, port = TlsFiles(tmp_path), free_port()
    settings = {
        "dataDir": str(tmp_path / "data"),
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": files.broker,
        "ssl.trustStore.location": files.trust,
    }
    path = tmp_path / "zoo.cfg"
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    registry = Running(kavka_command("zookeeper-server-start", str(path)), tmp_path / "out")
    try:
        registry.wait_for("ready: ", 30)
        client = KazooClient(
            f"localhost:{port}",
            use_ssl=True,
            ca=files.trust,
            certfile=files.client,
            keyfile=files.client,
        )
        client.start(20)
        client.create("/one", b"value")
        assert client.get("/one")[0] == b"value"
        client.stop()
        client.close()
    finally:
        registry.stop()
