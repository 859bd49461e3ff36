"""Findings that the user has decided about: ``noqa`` comments and the baseline."""
