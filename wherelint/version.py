"""The version of wherelint: here alone, since the rest of the package is imported when it is used."""

__version__ = "0.1.0"
