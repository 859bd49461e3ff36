"""The local guard: an operation masked by a condition on its own operand."""
