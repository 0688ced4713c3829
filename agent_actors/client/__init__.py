"""`query()`, `run()`, `run_sync()` and `Client`: conversations without a runtime in view."""
