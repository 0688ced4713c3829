"""Certificates for tests, of an authority that nobody else trusts."""

import datetime as dt
import functools
import ssl

import trustme

DAY = dt.timedelta(days=1)


@functools.cache
def authority() -> trustme.CA:
    """Who issues them."""
    return trustme.CA()


def trusting() -> ssl.SSLContext:
    """A client's context that trusts it."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=authority().cert_pem.bytes().decode())
    return context


def serving(*names: str, expired: bool = False, by: trustme.CA | None = None) -> ssl.SSLContext:
    """A server's context.

    Args:
        names: What it says it is; `127.0.0.1` and `localhost` by default.
        expired: To say that this was so once.
        by: Who issues it, instead of the authority.
    """
    end = dt.datetime.now(dt.UTC) - DAY if expired else None
    begin = end - DAY if end is not None else None
    issued = (by or authority()).issue_cert(
        *(names or ("127.0.0.1", "localhost")), not_before=begin, not_after=end
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with issued.private_key_and_cert_chain_pem.tempfile() as path:
        context.load_cert_chain(path)
    return context
