"""The hooks of one run: calls to the hook chain, its phases and the validation of results."""
