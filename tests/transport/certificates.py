"""Certificates for tests, issued by an authority that only the tests trust."""

import datetime as dt
import functools
import ssl

import trustme

DAY = dt.timedelta(days=1)


@functools.cache
def authority() -> trustme.CA:
    """Return the authority that issues the certificates."""
    return trustme.CA()


def trusting() -> ssl.SSLContext:
    """Return a client's context that trusts the authority."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=authority().cert_pem.bytes().decode())
    return context


def serving(*names: str, expired: bool = False, by: trustme.CA | None = None) -> ssl.SSLContext:
    """Return a server's context.

    Args:
        names: The names in the certificate; `127.0.0.1` and `localhost` by default.
        expired: True for a certificate that is no longer valid.
        by: The authority that issues the certificate, instead of the default one.
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
