"""`PASSED.txt` names what passes against our broker. It only grows."""

from __future__ import annotations

import pytest

from kavka_compat.passed import collected, listed

pytestmark = pytest.mark.compat


def test_the_list_and_the_tests_agree() -> None:
    tests, names = collected(), listed()
    assert not names - tests, "on the list, but no longer a test"
    assert not tests - names, "a test that is not on the list: run `make passed`"
