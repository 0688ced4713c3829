"""The version of the package; the build reads it from here."""

# A plain literal on one line, because the build reads it without importing the module.
__version__ = "0.1.0"
