"""The version of this package; `pyproject.toml` reads it here, so there is one place to change it."""

VERSION = "0.1.0"
