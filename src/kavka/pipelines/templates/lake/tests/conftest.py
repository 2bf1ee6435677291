"""The fixture `pipeline`, for `pytest`; `kavka pipelines test` knows it by itself."""

pytest_plugins = ["kavka.pipelines.testing.fixture"]
