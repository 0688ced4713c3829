"""Where session logs are kept: one port, one adapter a file."""
