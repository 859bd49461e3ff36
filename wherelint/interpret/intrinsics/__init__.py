"""What known names do: functions and methods of Python and of the frameworks. Its modules register their handlers."""

from wherelint.interpret.intrinsics import arrays, discrete, methods, python, reshape, selections, transforms

__all__ = ["arrays", "discrete", "methods", "python", "reshape", "selections", "transforms"]
