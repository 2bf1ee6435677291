"""The script that draws the site's diagrams is the pinned one, or none."""

from __future__ import annotations

import base64
import hashlib
import io
import runpy
import tarfile
from pathlib import Path
from typing import Any

import pytest

SCRIPT: dict[str, Any] = runpy.run_path(
    str(Path(__file__).resolve().parents[2] / "scripts" / "site_assets.py")
)
CHECKED = SCRIPT["checked"]


def package(content: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for member in SCRIPT["MEMBERS"]:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def test_another_package_is_refused() -> None:
    with pytest.raises(ValueError, match="has the SHA-512"):
        CHECKED(package(b"something else"))


def test_the_expected_package_is_extracted_with_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = package(b"var mermaid;")
    expected = base64.b64encode(hashlib.sha512(content).digest()).decode()
    monkeypatch.setitem(CHECKED.__globals__, "SHA512", expected)
    SCRIPT["extract"](CHECKED(content), tmp_path / "assets")
    assert (tmp_path / "assets" / "mermaid.tiny.js").read_bytes() == b"var mermaid;"
    assert (tmp_path / "assets" / "LICENSE").exists()


def test_a_build_without_a_connection_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise OSError("no connection")

    build = SCRIPT["on_post_build"]
    monkeypatch.setitem(build.__globals__, "CACHE", tmp_path / "none")
    monkeypatch.setattr("urllib.request.urlopen", fail)
    build({"site_dir": str(tmp_path / "site")})
    assert not (tmp_path / "site").exists()
