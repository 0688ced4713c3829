"""HTTP behind `abc.ByteExchange`. The only package that imports an HTTP library."""
