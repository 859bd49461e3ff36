"""Syntax -> graph: what the expressions, statements and calls of the linted program compute."""
