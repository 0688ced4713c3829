"""HTTP implementations of `abc.ByteExchange`. Only this package imports HTTP libraries."""
