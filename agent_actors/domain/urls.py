"""URLs in a form that is safe for error messages and logs."""


def public_url(url: str) -> str:
    """Return the URL without its credentials and its query, which may contain a key."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
