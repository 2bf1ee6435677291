import pytest

from kavka.broker.config import BrokerConfig
from kavka.settings.declaration import InvalidSetting


def test_a_broker_that_is_to_authorize_does_not_start_open_to_everybody():
    with pytest.raises(InvalidSetting, match="no access control"):
        BrokerConfig({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


def test_an_empty_authorizer_is_none():
    assert BrokerConfig({"authorizer.class.name": ""}).optional("authorizer.class.name") == ""
