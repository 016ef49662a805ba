"""Logins by SCRAM that the endpoint refuses before it looks for a credential."""

import pytest

from controller.security.errors import LoginRejected
from controller.security.scram import HASHES, ScramExchange


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_login_with_a_delegation_token_is_refused(mechanism: str) -> None:
    assert ScramExchange(mechanism, b"n,,n=token-id,r=nonce,tokenauth=false").user == "token-id"
    with pytest.raises(LoginRejected, match="refold does not support delegation tokens"):
        ScramExchange(mechanism, b"n,,n=token-id,r=nonce,tokenauth=true")
