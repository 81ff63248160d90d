"""The version of fedkin, said once: the package, its wheel and run folders read it here."""

__version__ = "0.2.0"
