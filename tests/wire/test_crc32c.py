"""The checksum that is loaded past its package is the package's own."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package

from kavka.wire.crc32c import crc32c


def test_a_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C (RFC 3720)
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == 0xE3069283
    assert crc32c(b"more") == package.crc32c(b"more")


def test_loading_it_brings_nothing_of_the_rest_of_its_package() -> None:
    says = (
        "import sys, kavka.wire.crc32c; print(*{'crc32c', 'argparse', 'email'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
