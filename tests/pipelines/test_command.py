"""`kavka pipelines` up to where Spark begins."""

import pytest

from kavka.cli.commands.pipelines import SUBCOMMANDS
from kavka.cli.main import main


def run(capsys, *arguments):
    code = main(["pipelines", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_new_project_says_what_is_in_it_and_what_to_do_next(capsys, tmp_path):
    code, said = run(capsys, "init", str(tmp_path / "shop"), "--bootstrap-server", "host:1")
    assert code == 0
    assert "  transformations/events.py\n" in said
    assert said.endswith(f"next: cd {tmp_path / 'shop'} && kavka pipelines check\n")
    assert "host:1" in (tmp_path / "shop" / "transformations" / "events.py").read_text()


def test_a_template_that_does_not_exist_is_named(capsys, tmp_path):
    code, said = run(capsys, "init", str(tmp_path / "shop"), "--template", "none")
    assert code == 1
    assert said.startswith("kavka pipelines: there is no template 'none'; the templates are ")
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize(
    "command", [("check",), ("run",), ("backfill", "--from", "0"), ("reset", "f")]
)
def test_a_folder_that_is_no_project_is_one_sentence(capsys, tmp_path, command):
    code, said = run(capsys, *command, "--project", str(tmp_path))
    assert code == 1
    assert said.count("\n") == 1
    assert "is not a pipeline project" in said


@pytest.mark.parametrize("command", list(SUBCOMMANDS))
def test_each_subcommand_explains_itself(capsys, command):
    assert main(["pipelines", command, "--help"]) == 0
    assert f"usage: kavka pipelines {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [("--conf", "no-value"), ("--master", "local", "--remote", "sc://h")]
)
def test_options_that_do_not_fit_are_refused(capsys, wrong):
    assert main(["pipelines", "run", *wrong]) == 1


def test_progress_of_brokers_that_are_away_is_one_sentence(capsys, tmp_path):
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=10\n")
    settings = ("--command-config", str(tmp_path / "client.properties"))
    code, said = run(capsys, "status", "--bootstrap-server", "127.0.0.1:1", *settings)
    assert code == 1
    assert "kavka pipelines: cannot reach any of bootstrap.servers [127.0.0.1:1]" in said
