"""URLs as error messages show them."""

import pytest

from agent_actors.domain.provenance import public_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a/b", "http://a/b"),
        ("https://user:pass@a:1/b?key=secret", "https://a:1/b"),
        ("http://a?key=secret", "http://a"),
        ("https://u:p@w@a/b", "https://a/b"),
    ],
)
def test_public_url_hides_credentials_and_query(url: str, shown: str) -> None:
    assert public_url(url) == shown
