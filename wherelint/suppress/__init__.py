"""Findings that somebody has decided about: ``noqa`` comments and the baseline."""
