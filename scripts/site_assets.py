"""Puts Mermaid, which draws the diagrams of pages, into the site: MkDocs calls `on_post_build` (hooks in mkdocs.yml).

The site then needs no other server. The file is the unmodified one of the package on npm (MIT), checked by its hash,
and kept in build/assets for the next build.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

URL = "https://registry.npmjs.org/@mermaid-js/tiny/-/tiny-11.17.2.tgz"
SHA512 = "PmFr1c5cSfNf5AngLLR98DrbvR4U5KeD7I+hQkGqG5w5Veu3QT4dG0qu9f99cpn/sKj2XxRBK0q7EL6hr9NY/A=="
"""The integrity that npm names for this package: of the archive, in base64."""
MEMBERS = {"package/dist/mermaid.tiny.js": "mermaid.tiny.js", "package/LICENSE": "LICENSE"}
CACHE = Path(__file__).resolve().parents[1] / "build" / "assets" / URL.rpartition("/")[2]

_TIMEOUT_S = 30

log = logging.getLogger("mkdocs.hooks.site_assets")


def archive() -> bytes:
    """Return the package, from the last build or from npm. Raise OSError; ValueError where its hash is another."""
    if CACHE.exists():
        return checked(CACHE.read_bytes())
    with urllib.request.urlopen(URL, timeout=_TIMEOUT_S) as response:
        content = checked(response.read())
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    CACHE.write_bytes(content)
    return content


def checked(content: bytes) -> bytes:
    """Return the package if its hash is the expected one. Raise ValueError."""
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != SHA512:
        raise ValueError(f"{URL} has the SHA-512 {found}, expected is {SHA512}")
    return content


def extract(content: bytes, directory: Path) -> None:
    """Write the script and its licence into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        for member, name in MEMBERS.items():
            file = package.extractfile(member)
            assert file is not None, member
            (directory / name).write_bytes(file.read())


def on_post_build(config: dict[str, Any]) -> None:
    """Add Mermaid to the site. Without a connection the site's pages load it from a public server instead."""
    try:
        content = archive()
    except OSError as error:
        log.info("diagrams need a connection, since %s cannot be fetched: %s", URL, error)
        return
    extract(content, Path(config["site_dir"]) / "assets" / "mermaid")
