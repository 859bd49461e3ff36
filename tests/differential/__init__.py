"""Random differentiable programs, and what the framework and wherelint say of them at the same points."""
