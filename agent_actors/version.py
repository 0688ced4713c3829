"""The version of the package; the build reads it from here."""

__version__ = "0.1.0"  # a bare literal: the build reads it without importing
