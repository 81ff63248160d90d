"""Settings that must agree with each other: the clients of a federation, by name or key."""

import pytest

from fedkin.core import FedkinError
from fedkin.experiment.config import load_config

KEY = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlz"
    "dHAyNTYAAABBBIdDw+s7fBft4h6QKziAStYoMKsc7XLErW4dKso9HeTtOtJAbcfA499BLVVaO9xDqRNEtpJ4UYDH+Od4VoOlOhw="
)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["federation.clients=['a', 'b', 'a']"], "'federation.clients' lists 'a' twice."),
        (["federation.clients=['a']", f"federation.keys.b='{KEY}'"], "'federation.keys' has a key of 'b', which"),
        (["federation.keys.a=sites/a.pub"], "'federation.keys' has no public key of 'a';"),
        (
            [f"federation.keys.a='{KEY}'", f"federation.keys.b='{KEY} of b'"],
            "'federation.keys' has one key for 'a' and 'b'; each has its own.",
        ),
        (
            ["federation.clients=['a']", "federation.sites=2"],
            "'federation.sites' is 2, but [federation] lists 1 clients.",
        ),
        (["federation.clients='a'"], "'federation.clients' is 'a' on the command"),
        (["federation.client=['a']"], "Unknown key on the command line:"),
    ],
)
def test_lists_of_clients_that_contradict_themselves_are_refused(settings: list[str], sentence: str) -> None:
    with pytest.raises(FedkinError) as caught:
        load_config("kfed", settings)
    assert str(caught.value).startswith(sentence)
