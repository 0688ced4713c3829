"""URLs as error messages and logs may show them."""


def public_url(url: str) -> str:
    """Return the URL without its credentials and without its query, which may hold a key."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
