"""A command that fails is shown without the secrets that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.cli.text.secrets import shown_command

JAAS = 'listener.name.x.plain.sasl.jaas.config=[a.PlainLoginModule required user_a="topsecret";]'


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256=[iterations=8192,password=a]topsecret]",
        "SCRAM-SHA-256=[password=topsecret],SCRAM-SHA-512=[password=topsecret]",
        "SCRAM-SHA-256=password=topsecret",
        "SCRAM-SHA-256=[password=topsecret",
        JAAS,
        JAAS.replace("topsecret", "a]topsecret"),
        "listener.name.x.ssl.keystore.password=topsecret",
        "listener.name.x.ssl.keystore.key=-----BEGIN topsecret",
        "password.encoder.secret=topsecret,num.io.threads=3",
        "topsecret",
    ],
)
def test_no_part_of_a_secret_is_shown(text: str) -> None:
    for argv in (["--alter", "--add-config", text], ["--alter", f"--add-config={text}"]):
        shown = shown_command(argv, [text])
        assert "topsecret" not in shown
        assert "[hidden]" in shown


def test_a_value_that_was_cut_at_a_space_is_hidden() -> None:
    argv = ["--add-config", "SCRAM-SHA-256=[iterations=8192,", "password=topsecret]"]
    assert "topsecret" not in shown_command(argv, [argv[1]])


def test_other_settings_are_shown_as_they_were_given() -> None:
    argv = ["--topic", "t", "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]"]
    assert shown_command(argv, argv[3:]) == " ".join(argv)


def test_a_password_that_reads_like_a_name_is_not_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    user = ["configs", "--log-dir", str(tmp_path), "--alter", "--user", "u", "--add-config"]
    assert main([*user, "SCRAM-SHA-256=[password=x],topsecret=1,producer_byte_rate=1"]) == 1
    printed = capsys.readouterr()
    assert "Unexpected config names: [hidden], producer_byte_rate" in printed.err
    assert "topsecret" not in printed.out + printed.err
