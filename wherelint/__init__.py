"""wherelint finds the ``where`` that protects the value and poisons the gradient."""

__version__ = "0.1.0"
