"""The table of APIs, the declarations behind it, and what others declare."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.wire.apis import APIS, Api, ApiKey
from kavka.wire.codec import decoder_of, encoder_of
from kavka.wire.schema import schema_of, version_range

API_IDS = [api.key.title for api in APIS.values()]


@pytest.mark.parametrize("api", APIS.values(), ids=API_IDS)
def test_the_table_says_what_the_classes_declare(api: Api) -> None:
    flexible = range(0) if api.flexible_from is None else version_range(f"{api.flexible_from}+")
    for cls in (api.request(), api.response()):
        schema = schema_of(cls)
        assert schema.api_key == api.key
        assert schema.versions == range(api.min_version, api.max_version + 1)
        assert schema.flexible == flexible


@pytest.mark.parametrize("api", APIS.values(), ids=API_IDS)
def test_every_version_compiles_both_ways(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        for cls in (api.request(), api.response()):
            decoder_of(cls, version)
            encoder_of(cls, version)


def test_a_plain_number_finds_its_api() -> None:
    assert APIS[18].key is ApiKey.API_VERSIONS
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.title == "OffsetForLeaderEpoch"
    assert 9999 not in APIS


def test_importing_the_table_imports_no_message() -> None:
    code = (
        "import sys, kavka.wire.frame; "
        "print([name for name in sys.modules if name.startswith('kavka.wire.messages')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
