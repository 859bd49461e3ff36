"""What known names do: functions and methods of Python and of the frameworks. Its modules register their handlers."""

from wherelint.interpret.intrinsics import arrays, elements, python, selections, transforms

__all__ = ["arrays", "elements", "python", "selections", "transforms"]
