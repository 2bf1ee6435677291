"""Archives of Spark's classes, without Spark: their names, their folder, and what forbids them."""

from pathlib import Path

from kavka.spark.class_archive import VARIABLE, ClassArchive, archive_directory


def made(tmp_path):
    java, jar = tmp_path / "java", tmp_path / "a.jar"
    for file in (java, jar):
        file.write_text("x")
    return java, jar, ClassArchive(tmp_path, java, [jar])


def test_an_archive_is_read_once_it_is_made(tmp_path):
    java, jar, archive = made(tmp_path)
    assert archive.reading() == []
    [quiet, option] = archive.making()
    new = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
    new.write_text("of a program that failed")
    archive.made(is_good=False)
    assert not archive.is_made
    new.write_text("of one that did not")
    archive.made(is_good=True)
    assert not new.exists()
    again = ClassArchive(tmp_path, java, [jar])
    assert again.reading() == [quiet, f"-XX:SharedArchiveFile={archive.path}"]


def test_another_release_has_another_archive(tmp_path):
    java, jar, archive = made(tmp_path)
    jar.touch()
    assert ClassArchive(tmp_path, java, [jar]).path != archive.path


def test_archives_are_in_the_users_own_folder_unless_the_environment_forbids_them(tmp_path):
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = archive_directory(home)
    assert found == tmp_path / "cache" / "kavka" / "spark-classes"
    assert found.stat().st_mode & 0o077 == 0
    assert archive_directory({**home, VARIABLE: str(tmp_path / "here")}) == tmp_path / "here"
    open_to_others = tmp_path / "open"
    open_to_others.mkdir()
    open_to_others.chmod(0o777)
    for more in (
        {VARIABLE: "none"},
        {VARIABLE: str(open_to_others)},
        {VARIABLE: "/dev/null/folder"},
        {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/a.jsa"},
        {"JAVA_TOOL_OPTIONS": "-Xshare:off"},
    ):
        assert archive_directory({**home, **more}) is None, more


def test_a_user_without_a_home_has_no_archives(tmp_path, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert archive_directory({}) is None
    assert archive_directory({VARIABLE: str(tmp_path / "here")}) == tmp_path / "here"
