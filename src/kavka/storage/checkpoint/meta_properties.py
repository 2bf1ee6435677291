"""`meta.properties`: which broker of which cluster a log directory belongs to (protocol facts, version 0)."""

from __future__ import annotations

from kavka.values import frozen

META_PROPERTIES = "meta.properties"


@frozen
class MetaProperties:
    """The identity of a log directory; None where the file does not say."""

    broker_id: int | None
    cluster_id: str | None
    directory_id: str | None = None

    def encode(self) -> bytes:
        """Return the file's content, a Java properties file."""
        lines = ["version=0"]
        if self.broker_id is not None:
            lines.append(f"broker.id={self.broker_id}")
        if self.cluster_id is not None:
            lines.append(f"cluster.id={self.cluster_id}")
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        return ("\n".join(["#", *lines]) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> MetaProperties:
        """Read version 0 (ZooKeeper mode) or 1 (KRaft). Raise ValueError on anything else.

        A file without version is damaged: a process that took it as a new one would be another broker.
        """
        values: dict[str, str] = {}
        for line in content.decode("latin-1").splitlines():
            text = line.strip()
            if text and text[0] not in "#!":
                name, _, value = text.partition("=")
                values[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
        version = values.get("version")
        if version is None:
            raise ValueError(f"{META_PROPERTIES} has no version, so it is damaged")
        if version not in ("0", "1"):
            raise ValueError(f"{META_PROPERTIES} has version {version}; 0 and 1 are known")
        name = "broker.id" if version == "0" else "node.id"
        broker_id = values.get(name)
        if broker_id is not None and not broker_id.removeprefix("-").isdecimal():
            raise ValueError(f"{META_PROPERTIES} has {name} {broker_id!r}, which is no number")
        return cls(
            broker_id=None if broker_id is None else int(broker_id),
            cluster_id=values.get("cluster.id"),
            directory_id=values.get("directory.id"),
        )
