"""HTTP: the one room that imports an HTTP library. Everything else sees `abc.ByteExchange`."""
