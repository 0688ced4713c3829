"""The network of a sandbox that may reach only some hosts."""
