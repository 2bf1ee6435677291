"""Make the fixture `kavka_cluster` known."""

pytest_plugins = ["kavka.testing.fixture"]
