"""Finding projects, templates, settings files, and the settings of a session."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kavka.pipelines.project import (
    PipelineError,
    Project,
    find_spec_file,
    local_path,
    make_project,
    read_defaults,
    template_names,
)
from kavka.pipelines.session import (
    SparkOptions,
    require_free_catalogue,
    session_settings,
    with_archive,
)


def test_the_specification_is_found_in_the_nearest_folder(tmp_path):
    inner = tmp_path / "project" / "transformations"
    inner.mkdir(parents=True)
    spec = inner.parent / "spark-pipeline.yml"
    spec.write_text("name: x")
    assert find_spec_file(inner) == find_spec_file(inner.parent) == find_spec_file(spec) == spec


def test_a_folder_that_is_no_project_is_refused(tmp_path):
    with pytest.raises(PipelineError, match="not a pipeline project"):
        find_spec_file(tmp_path)
    with pytest.raises(PipelineError, match="does not exist"):
        find_spec_file(tmp_path / "none")


def test_two_specifications_are_refused(tmp_path):
    (tmp_path / "spark-pipeline.yml").write_text("name: x")
    (tmp_path / "spark-pipeline.yaml").write_text("name: x")
    with pytest.raises(PipelineError, match="both"):
        find_spec_file(tmp_path)


@pytest.mark.parametrize("template", template_names())
def test_a_template_leaves_no_braces(tmp_path, template):
    written = make_project(tmp_path / "shop", template, "host:1")
    assert Path("spark-pipeline.yml") in written
    assert Path("spark-defaults.conf") in written
    for path in written:
        text = (tmp_path / "shop" / path).read_text()
        assert "{{" not in text.replace("${{", ""), path
    assert (
        f"storage: {(tmp_path / 'shop' / 'storage').as_uri()}"
        in (tmp_path / "shop" / "spark-pipeline.yml").read_text()
    )


def test_the_blank_template_is_there():
    assert "blank" in template_names()


def test_a_project_needs_a_new_folder_and_a_plain_name(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(PipelineError, match="not empty"):
        make_project(tmp_path / "full", "blank", "host:1")
    with pytest.raises(PipelineError, match="cannot name a pipeline"):
        make_project(tmp_path / "two words", "blank", "host:1")
    with pytest.raises(PipelineError, match="no template 'none'"):
        make_project(tmp_path / "new", "none", "host:1")


def test_storage_on_this_machine_has_a_path():
    assert local_path("file:///data/my%20pipe") == Path("/data/my pipe")
    assert local_path("/data") == Path("/data")
    assert local_path("s3a://bucket/x") is None


def test_a_settings_file_is_read_as_spark_reads_it():
    text = "# comment\n\nspark.a  1 2\nspark.b=3\n  spark.c\t=  4 # no comment\nspark.d\n"
    assert read_defaults(text) == {
        "spark.a": "1 2",
        "spark.b": "3",
        "spark.c": "4 # no comment",
        "spark.d": "",
    }


def project(tmp_path, storage=None, **configuration):
    spec = SimpleNamespace(
        name="shop",
        storage=storage or (tmp_path / "storage").as_uri(),
        configuration={name.replace("__", "."): value for name, value in configuration.items()},
    )
    return Project(tmp_path / "spark-pipeline.yml", spec)


def test_tables_are_remembered_by_default(tmp_path):
    settings = session_settings(project(tmp_path), SparkOptions())
    assert settings["spark.sql.catalogImplementation"] == "hive"
    assert (
        str(tmp_path / "storage" / "catalog")
        in settings["spark.hadoop.javax.jdo.option.ConnectionURL"]
    )
    assert settings["spark.sql.warehouse.dir"] == str(tmp_path / "storage" / "tables")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark__sql__catalogImplementation", "in-memory"),
        ("spark__hadoop__hive__metastore__uris", "thrift://host:9083"),
    ],
)
def test_another_catalogue_of_the_project_is_left_alone(tmp_path, name, value):
    settings = session_settings(project(tmp_path, **{name: value}), SparkOptions())
    assert "spark.hadoop.javax.jdo.option.ConnectionURL" not in settings


def test_no_catalogue_is_made_up_for_storage_elsewhere(tmp_path):
    settings = session_settings(project(tmp_path, storage="s3a://bucket/x"), SparkOptions())
    assert "spark.sql.catalogImplementation" not in settings


def test_the_command_line_wins_over_the_project_and_that_over_its_defaults(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.a 1\nspark.b 1\nspark.c 1\n")
    spark_options = SparkOptions(conf={"spark.c": "3"})
    settings = session_settings(project(tmp_path, spark__b="2", spark__c="2"), spark_options)
    assert [settings[f"spark.{name}"] for name in "abc"] == ["1", "2", "3"]


def test_a_cluster_gets_no_loopback_addresses(tmp_path):
    settings = session_settings(project(tmp_path), SparkOptions("spark://host:7077"))
    assert settings["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in settings


def test_a_catalogue_that_another_process_has_open_is_refused(tmp_path):
    settings = session_settings(project(tmp_path), SparkOptions())
    require_free_catalogue(settings)  # there is none yet
    catalogue = tmp_path / "storage" / "catalog"
    catalogue.mkdir(parents=True)
    (catalogue / "dbex.lck").touch()
    require_free_catalogue(settings)
    holder = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder, str(catalogue / "dbex.lck")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(
            PipelineError, match="another process has this project's catalogue open"
        ):
            require_free_catalogue(settings, wait_s=0)
        other.stdin.close()
    require_free_catalogue(settings)


def test_an_archive_joins_those_that_are_given():
    conf = with_archive({"spark.archives": "a.zip"}, "/tmp/k.tar.gz")
    assert conf["spark.archives"] == "a.zip,/tmp/k.tar.gz#kavka-spark"
    assert conf["spark.executorEnv.PYTHONPATH"] == "kavka-spark"
